"""What LaTeX commands and words mean to the parser: tables only."""

from __future__ import annotations

from plaudit_math.naming import names

STYLE = names(
    "displaystyle textstyle scriptstyle scriptscriptstyle left right middle big Big bigg Bigg bigl bigr Bigl Bigr "
    "biggl biggr Biggl Biggr bigm limits nolimits rm bf it sf tt cal mathstrut strut hfill noindent centering "
    "large Large normalsize small boldmath null allowbreak nonumber notag hline"
)
SPACE = frozenset([",", ";", ":", "!", " ", ">", "quad", "qquad", "thinspace", "enspace", "enskip", "space",
                   "negthinspace",
                   "medspace", "thickspace", "/", "-"])  # fmt: skip
TEXT = names("text textbf textit textrm textsf texttt textnormal textup mbox hbox textsc textmd emph")
FONT = names(
    "mathrm mathbf mathit mathsf mathtt mathnormal operatorname boldsymbol bm mathcal mathscr mathfrak "
    "operatorname* symbf pmb"
)
BOX = names("boxed fbox framebox ensuremath underline cancel phantom tag label color textcolor")
GREEK = names(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho "
    "sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell "
    "hbar aleph partial nabla"
)
GREEK_SAME = {"varepsilon": "epsilon", "vartheta": "theta", "varrho": "rho", "varphi": "phi"}
CONSTANTS = {
    "infty": "∞", "infinity": "∞", "pi": "π", "emptyset": "∅", "varnothing": "∅", "O": "∅", "i": "i", "imath": "i",
    "e": "e", "R": "ℝ", "reals": "ℝ", "Z": "ℤ", "N": "ℕ", "Q": "ℚ", "C": "ℂ", "top": "⊤", "bot": "⊥",
}  # fmt: skip
OPERATORS = {
    "times": "*", "cdot": "*", "ast": "*", "star": "⋆", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤",
    "leqslant": "≤", "leqq": "≤", "lt": "<", "gt": ">", "ge": "≥", "geq": "≥", "geqslant": "≥", "geqq": "≥", "ne": "≠",
    "neq": "≠", "in": "∈", "notin": "∉", "isin": "∈", "cup": "∪", "bigcup": "∪", "cap": "∩", "bigcap": "∩",
    "setminus": "∖", "backslash": "∖", "smallsetminus": "∖", "land": "∧", "wedge": "∧", "lor": "∨", "vee": "∨",
    "neg": "¬", "lnot": "¬", "to": "→", "rightarrow": "→", "Rightarrow": "→", "implies": "→", "longrightarrow": "→",
    "Longrightarrow": "→", "mapsto": "→", "iff": "↔", "Leftrightarrow": "↔", "leftrightarrow": "↔",
    "Longleftrightarrow": "↔", "mid": "mid", "vert": "|", "lvert": "|(", "rvert": "|)", "Vert": "‖", "|": "‖",
    "lVert": "‖", "rVert": "‖", "{": "{", "}": "}", "lbrace": "{", "rbrace": "}", "lbrack": "[", "rbrack": "]",
    "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "%": "%", "$": "$",
    "#": "#", "&": "&", "_": "_", "colon": ":", "ldots": "…", "dots": "…", "cdots": "…", "dotsc": "…", "equiv": "≡",
    "approx": "≈", "simeq": "≈", "doteq": "≈", "thickapprox": "≈", "sim": "∼", "cong": "≅", "prime": "'", "\\": "\\\\",
    "newline": "\\\\", "cr": "\\\\", "circ": "∘", "degree": "°", "forall": "∀", "exists": "∃", "perp": "⟂",
    "parallel": "∥", "therefore": "∴", "because": "∵", "subset": "⊂", "subseteq": "⊆", "oplus": "⊕", "otimes": "⊗",
    "leftarrow": "←", "propto": "∝", "ll": "≪", "gg": "≫", "lparen": "(", "rparen": ")", "bullet": "*", "ni": "∋",
    "euro": "€", "pounds": "£", "yen": "¥", "textdollar": "$", "textdegree": "°", "over": "over", "choose": "choose",
    "atop": "over", "bmod": "mod", "textpercent": "%", "textbackslash": "∖",
}  # fmt: skip
FUNCTIONS = names(
    "sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sech csch arsinh "
    "arcosh artanh ln log lg lb exp sqrt cbrt det gcd lcm max min arg Re Im sgn sign abs floor ceil deg asin acos "
    "atan tr rank dim ker Var Cov Pr erf asinh acosh atanh round hcf"
)
FUNCTION_SAME = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "arctg": "arctan", "tg": "tan", "ctg": "cot", "sgn": "sign",
    "hcf": "gcd", "Log": "log", "Ln": "ln", "asinh": "arsinh", "acosh": "arcosh", "atanh": "artanh", "sh": "sinh",
    "ch": "cosh", "th": "tanh", "arcsinh": "arsinh", "arccosh": "arcosh", "arctanh": "artanh", "cosec": "csc",
}  # fmt: skip
FUNCTION_NAMES = FUNCTIONS | frozenset(FUNCTION_SAME)
PLAIN_WORDS = {
    "infinity": "∞", "inf": "∞", "oo": "∞", "pi": "π", "theta": "theta", "alpha": "alpha", "beta": "beta",
    "gamma": "gamma", "lambda": "lambda", "phi": "phi", "omega": "omega", "sigma": "sigma", "mu": "mu",
}  # fmt: skip
CONNECTORS = {"and": "and", "or": "or", "AND": "and", "OR": "or", "和": "and", "或": "or", "或者": "or", "与": "and",
              "及": "and", "union": "∪", "et": "and", "ou": "or", "und": "and", "oder": "or", "And": "and",
              "Or": "or"}  # fmt: skip
CURRENCY = {"$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yuan", "₹": "rupee", "₽": "rouble", "₩": "won",
            "¢": "cent"}  # fmt: skip
SHORT_WORDS = names(
    "dne jan feb mar apr jun jul aug sep oct nov dec the ten one two six and for not but are you can may yes "
    "no is it in of to so as at be by or on if we he do "
    "an all any per day way new out now how who why its has had was did get let put see say she him her our too "
    "use sum box red tea eat ate cat dog car man men boy sun mon tue wed thu fri sat odd top end low big few off "
    "own old none ans var lot row set map key cup east west four five nine zero half each both such that this "
    "then than them with from have"
)
"""Letters that are words, not products."""

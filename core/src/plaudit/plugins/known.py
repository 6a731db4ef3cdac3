"""The names that Plaudit's own distributions bring, so that an unknown name can say what to install.

A test of the workspace compares this table with the entry points of its distributions.
"""

from __future__ import annotations

# The generators of reasoning-gym 0.1.25.
_REASONING_GYM = (
    "ab acre advanced_geometry aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation "
    "binary_matrix bitwise_arithmetic boxnet caesar_cipher calendar_arithmetic chain_sum circuit_logic "
    "codeio coin_flip color_cube_rotation complex_arithmetic count_bits count_primes countdown "
    "course_schedule cryptarithm decimal_arithmetic decimal_chain_sum dice emoji_mystery "
    "family_relationships figlet_font fraction_simplification futoshiki game_of_life game_of_life_halting "
    "gcd graph_color group_anagrams gsm_symbolic intermediate_integration isomorphic_strings jugs "
    "kakurasu knight_swap knights_knaves largest_island lcm leg_counting letter_counting letter_jumble "
    "list_functions mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid n_queens "
    "needle_haystack number_filtering number_format number_sequence number_sorting palindrome_generation "
    "palindrome_partitioning path_star polynomial_equations polynomial_multiplication pool_matrix "
    "power_function prime_factorization products propositional_logic puzzle24 quantum_lock ransom_note "
    "rearc rectangle_count rotate_matrix rotten_oranges rubiks_cube rush_hour self_reference "
    "sentence_reordering shortest_path simple_equations simple_geometry simple_integration sokoban "
    "spell_backward spiral_matrix string_insertion string_manipulation string_splitting string_synthesis "
    "sudoku survo syllogism time_intervals tower_of_hanoi tsumego word_ladder word_sequence_reversal "
    "word_sorting zebra_puzzles "
).split()

FIRST_PARTY = {
    "plaudit": ("verl", "nemo_gym", "verifiers", "ors", "openenv", "harbor"),
    "plaudit-math": ("math",),
    "plaudit-code": ("code",),
    "plaudit-choice": ("choice",),
    "plaudit-json": ("json",),
    "plaudit-toolcall": ("toolcall",),
    "plaudit-sql": ("sql",),
    "plaudit-ifeval": ("ifeval",),
    "plaudit-match": ("exact", "regex", "numeric", "f1"),
    "plaudit-text": (
        "format", "think_format", "think_answer_format", "incremental_format", "xml_count", "soft_overlong",
        "cosine_scaled", "target_length", "repetition", "language", "style", "diversity",
    ),
    "plaudit-judge": ("judge", "judge_score", "judge_verdict", "judge_pairwise", "judge_ranking"),
    "plaudit-rewardmodel": ("reward_model",),
    "plaudit-sandbox": ("local", "docker", "e2b", "sandbox"),
    "plaudit-gym": (
        "calculator", "guess_number", "grid_walk", "python_sandbox", "sqlite_questions", "puzzle", "gym:arithmetic",
        "gym:programs", "gym:shop", *(f"reasoning_gym:{name}" for name in _REASONING_GYM),
    ),
    "plaudit-quickstart": (
        "addition", "larger", "quickstart", "smollm2", "quickstart:addition", "quickstart:larger",
        "quickstart:larger_in_words",
    ),
}  # fmt: skip


def distribution_with(name: str) -> str | None:
    """The distribution of ours that brings a component of this name, None when none does."""
    return next((distribution for distribution, names in FIRST_PARTY.items() if name in names), None)

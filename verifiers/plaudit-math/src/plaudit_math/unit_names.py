"""Tables of units. Factors are to metre, gram, second, square and cubic metre, dollar and so on."""

from __future__ import annotations

from fractions import Fraction

from plaudit_math.naming import names

Dimensions = tuple[tuple[str, int], ...]
_ROWS: list[tuple[str, str, str]] = [
    # names, factor, dimensions
    ("m meter metre meters metres 米 公尺", "1", "length 1"),
    ("km kilometer kilometre kilometers kilometres kms 千米 公里", "1000", "length 1"),
    ("dm decimeter decimetre decimeters decimetres 分米", "1/10", "length 1"),
    ("cm centimeter centimetre centimeters centimetres cms 厘米 公分", "1/100", "length 1"),
    ("mm millimeter millimetre millimeters millimetres 毫米", "1/1000", "length 1"),
    ("nm nanometer nanometre", "1/1000000000", "length 1"),
    ("in inch inches 英寸", "127/5000", "length 1"),
    ("ft foot feet 英尺", "381/1250", "length 1"),
    ("yd yard yards yds", "1143/1250", "length 1"),
    ("mi mile miles 英里", "201168/125", "length 1"),
    ("g gram grams gramme 克", "1", "mass 1"),
    ("kg kilogram kilograms kilo kilos kgs 千克 公斤", "1000", "mass 1"),
    ("mg milligram milligrams 毫克", "1/1000", "mass 1"),
    ("t ton tons tonne tonnes 吨", "1000000", "mass 1"),
    ("oz ounce ounces", "45359237/1600000", "mass 1"),
    ("lb lbs pound pounds 磅", "45359237/100000", "mass 1"),
    ("s sec secs second seconds 秒 秒钟", "1", "time 1"),
    ("ms millisecond milliseconds 毫秒", "1/1000", "time 1"),
    ("min mins minute minutes 分钟 分", "60", "time 1"),
    ("h hr hrs hour hours 小时 个小时 时", "3600", "time 1"),
    ("d day days 天 日", "86400", "time 1"),
    ("wk week weeks 周 星期", "604800", "time 1"),
    ("month months 月 个月", "1", "month 1"),
    ("yr yrs year years 年", "12", "month 1"),
    ("L l liter litre liters litres 升", "1/1000", "length 3"),
    ("ml mL milliliter millilitre milliliters millilitres cc 毫升", "1/1000000", "length 3"),
    ("gal gallon gallons", "473176473/125000000000", "length 3"),
    ("ha hectare hectares 公顷", "10000", "length 2"),
    ("acre acres", "316160658/78125", "length 2"),
    ("平方米", "1", "length 2"),
    ("平方厘米", "1/10000", "length 2"),
    ("平方千米 平方公里", "1000000", "length 2"),
    ("立方米", "1", "length 3"),
    ("立方厘米", "1/1000000", "length 3"),
    ("mph", "1397/3125", "length 1 time -1"),
    ("kph kmh", "5/18", "length 1 time -1"),
    ("° deg degree degrees 度", "1", "angle 1"),
    ("°C celsius", "1", "celsius 1"),
    ("°F fahrenheit", "1", "fahrenheit 1"),
    ("K kelvin kelvins", "1", "kelvin 1"),
    ("rad radian radians 弧度", "1", ""),
    ("dollar dollars USD usd buck bucks 美元", "1", "dollar 1"),
    ("cent cents ¢", "1/100", "dollar 1"),
    ("euro euros EUR 欧元", "1", "euro 1"),
    ("GBP 英镑 quid sterling", "1", "sterling 1"),
    ("penny pence", "1/100", "sterling 1"),
    ("yuan 元 RMB CNY 人民币 块 块钱", "1", "yuan 1"),
    ("角", "1/10", "yuan 1"),
    ("yen 日元 JPY", "1", "yen 1"),
    ("rupee rupees Rs INR", "1", "rupee 1"),
    ("rouble roubles ruble rubles", "1", "rouble 1"),
    ("won", "1", "won 1"),
    ("N newton newtons", "1000", "mass 1 length 1 time -2"),
    ("J joule joules", "1000", "mass 1 length 2 time -2"),
    ("kJ kilojoule kilojoules", "1000000", "mass 1 length 2 time -2"),
    ("W watt watts", "1000", "mass 1 length 2 time -3"),
    ("kW kilowatt kilowatts", "1000000", "mass 1 length 2 time -3"),
    ("Pa pascal pascals", "1000", "mass 1 length -1 time -2"),
    ("kPa", "1000000", "mass 1 length -1 time -2"),
    ("Hz hertz", "1", "time -1"),
    ("V volt volts", "1", "volt 1"),
    ("A amp amps ampere amperes", "1", "ampere 1"),
    ("ohm ohms", "1", "ohm 1"),
    ("mol mole moles", "1", "mole 1"),
    ("unit units 单位 sq", "1", ""),
    ("个 人 只 名 位 本 张 次 种 道 棵 条 辆 件 岁 组 枚 颗 朵 支 头 点 家 台 双 片", "1", ""),
    ("dozen dozens", "12", ""),
    ("score", "1", "score 1"),
]


def _table() -> dict[str, tuple[Fraction, Dimensions]]:
    table: dict[str, tuple[Fraction, Dimensions]] = {}
    for spellings, factor, dimensions in _ROWS:
        parts = dimensions.split()
        sizes = tuple(sorted((parts[i], int(parts[i + 1])) for i in range(0, len(parts), 2)))
        table |= {spelling: (Fraction(factor), sizes) for spelling in spellings.split()}
    return table


BASE = _table()
PREFIXES = {"kilo": Fraction(1000), "mega": Fraction(10**6), "milli": Fraction(1, 1000), "centi": Fraction(1, 100),
            "micro": Fraction(1, 10**6), "nano": Fraction(1, 10**9), "giga": Fraction(10**9)}  # fmt: skip
SQUARES = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "平方": 2, "立方": 3}
BINDERS = frozenset(["per", "each", "every", *SQUARES])
LONE_LETTERS = names("m g s t h d L l N J W V A K")
NOT_UNITS = names(
    "for where when if with such that is are the any all some constant arbitrary real integer integers positive "
    "negative number numbers base mod modulo more less fewer least most than about or and not only but either "
    "neither no none from to in of on at by as it be which then so hence thus times percent percentage percents "
    "pct half halves third thirds quarter quarters hundred thousand million billion trillion hundredths undefined "
    "infinite infinity otherwise else since because let given 以上 以下 至少 至多 百分 percentage-points pm am a.m p.m "
    "noon "
    "a an"
)

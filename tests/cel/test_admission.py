from dray.api.gates import ALL_GATES, DEFAULT_GATES
from dray.cel import COST_LIMIT, Expressions

CHECKER = Expressions()


def test_a_good_selector_has_a_cost():
    assert CHECKER.selector("device.driver == 'gpu.acme.test'", DEFAULT_GATES).cost == 4


def test_a_bad_one_has_an_error_with_its_place():
    report = CHECKER.selector("device.nosuch == 1", DEFAULT_GATES)
    assert report.error is not None
    assert "<input>:1:7: undefined field 'nosuch'" in report.error


def test_an_expensive_one_is_over_the_limit():
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    loops = "".join(f"{ten}.all({name}, " for name in "abcdef") + "true" + ")" * 6
    assert CHECKER.selector(loops, DEFAULT_GATES).cost > COST_LIMIT
    assert CHECKER.selector("['a', 'b'].join('-') == 'a-b'", DEFAULT_GATES).cost > COST_LIMIT


def test_lists_hang_on_their_gate():
    assert CHECKER.derived("[1, 2]", ALL_GATES).error is None
    assert CHECKER.derived("[1, 2]", DEFAULT_GATES).error is not None
    assert CHECKER.derived("1.5", ALL_GATES).error is not None

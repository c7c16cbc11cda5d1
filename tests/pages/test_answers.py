"""The page of answers marks wrong ones and shows the right ones."""

import numpy as np

from glassformer.demos.vqa import Answer, answers_html


def test_a_wrong_answer_is_marked_and_nothing_is_taken_for_markup():
    answers = [
        Answer("", "a <b>", "a <b>"),
        Answer("q&a?", "yes", "no"),
        Answer("why?", "so", ""),
    ]
    page = answers_html(
        "T<", "about", [("n", 0.5, 0.25)], [(np.zeros((2, 2, 3), np.uint8), answers)]
    )
    assert "a &lt;b&gt;" in page
    assert '<span class="wrong">no</span> <span class="right">not yes</span>' in page
    assert '<span class="wrong">nothing</span>' in page
    assert page.count('class="wrong"') == 2
    assert "50.0%" in page
    assert "25.0%" in page

"""The driver does what the other browser tests rely on."""

from __future__ import annotations


def test_cells_run_in_order_and_their_outputs_can_be_read(open_notebook, where):
    nb = open_notebook(["import ipykernel; print(ipykernel.__version__)", "1 / 0", "print('never')"], where)
    nb.run_all()
    version = nb.wait_output(0, ".")
    nb.wait_output(1, "ZeroDivisionError")
    nb.wait_idle()
    assert version.startswith("7." if where.kernel == "ipykernel-7" else "6.31.0")
    assert nb.output(2) == ""
    assert nb.save()["cells"][0]["outputs"]


def test_the_dark_theme_and_back(open_notebook, where):
    nb = open_notebook(["print(1)"], where, theme="dark")
    nb.run(0)
    nb.wait_output(0, "1")
    nb.set_theme("light")


def test_input_is_answered(open_notebook, where):
    nb = open_notebook(["print('got', input('name? '))"], where)
    nb.run(0)
    nb.answer_input("ada")
    nb.wait_output(0, "got ada")


def test_a_running_cell_is_interrupted_and_the_kernel_restarts(open_notebook, where):
    nb = open_notebook(["import time\nprint('on')\ntime.sleep(60)", "x"], where)
    nb.run(0)
    nb.wait_output(0, "on")
    nb.interrupt()
    nb.wait_output(0, "KeyboardInterrupt")
    nb.restart()
    nb.run(1)
    nb.wait_output(1, "NameError")

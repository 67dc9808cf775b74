"""Maps as small pictures: a cell is a pixel in the colour of its value."""

import base64
import io

import numpy as np
from PIL import Image

from workbench.drawing.pixels import as_png
from workbench.drawing.theme import SCALE


def test_a_cell_is_a_pixel_of_its_colour() -> None:
    cells = np.array([[0, 255, 0], [255, 0, 255]], dtype=np.uint8)
    head, _, data = as_png(cells, "light").partition(",")
    assert head == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    assert image.size == (3, 2)
    lowest, highest = SCALE["light"][0], SCALE["light"][-1]
    assert "#{:02x}{:02x}{:02x}".format(*image.getpixel((0, 0))) == lowest.lower()
    assert "#{:02x}{:02x}{:02x}".format(*image.getpixel((1, 0))) == highest.lower()

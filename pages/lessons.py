"""Lessons: views of the app with words and tasks, built in and of one's own.

Costs: reading the files of the user's lessons.
"""

from workbench.app.frame import lessons_page

lessons_page.draw()

"""The public names: this is their one list, which the module reads, as type checkers and editors do."""

from snellen_lab.ratings.form import FormItem as FormItem
from snellen_lab.ratings.form import PreparedForm as PreparedForm
from snellen_lab.ratings.form import make_form as make_form
from snellen_lab.ratings.form import prepare_form as prepare_form
from snellen_lab.ratings.sheets import ItemRatings as ItemRatings
from snellen_lab.ratings.sheets import RaterSheet as RaterSheet
from snellen_lab.ratings.sheets import RatingKey as RatingKey
from snellen_lab.ratings.sheets import write_questionnaire as write_questionnaire
from snellen_lab.ratings.summary import RatingSummary as RatingSummary
from snellen_lab.ratings.summary import gather as gather
from snellen_lab.ratings.summary import give_ratings as give_ratings
from snellen_lab.ratings.summary import summarise_ratings as summarise_ratings

__version__: str
__all__: list[str]

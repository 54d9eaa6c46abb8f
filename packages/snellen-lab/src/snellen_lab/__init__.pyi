"""The public names: this is their one list, which the module reads, as type checkers and editors do."""

from snellen_lab.agreement.readers import agreement_study as agreement_study
from snellen_lab.agreement.readers import calibrate as calibrate
from snellen_lab.agreement.statistics import Agreement as Agreement
from snellen_lab.analyses.observations import AnalysisRow as AnalysisRow
from snellen_lab.analyses.observations import AnalysisStatistic as AnalysisStatistic
from snellen_lab.analyses.observations import Measured as Measured
from snellen_lab.analyses.observations import Member as Member
from snellen_lab.audit.correction import Audit as Audit
from snellen_lab.audit.correction import audit_of as audit_of
from snellen_lab.audit.draw import design_for as design_for
from snellen_lab.linting import Finding as Finding
from snellen_lab.linting import lint as lint
from snellen_lab.linting.golds import DoubtfulQuestion as DoubtfulQuestion
from snellen_lab.linting.golds import doubtful_questions as doubtful_questions
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
from snellen_lab.studies.results import StudyResults as StudyResults
from snellen_lab.studies.results import run_study as run_study
from snellen_lab.studies.series import CellScores as CellScores
from snellen_lab.studies.series import StudyNumbers as StudyNumbers
from snellen_lab.studies.series import StudyPart as StudyPart
from snellen_lab.studies.series import StudyRow as StudyRow
from snellen_lab.studies.series import StudySeries as StudySeries
from snellen_lab.studies.series import StudyStatistic as StudyStatistic
from snellen_lab.studies.series import study_row as study_row
from snellen_lab.verification.audit import AuditLabel as AuditLabel
from snellen_lab.verification.audit import audit_outcome as audit_outcome
from snellen_lab.verification.audit import audited_items as audited_items
from snellen_lab.verification.certificate import Certificate as Certificate
from snellen_lab.verification.datasheet import Datasheet as Datasheet
from snellen_lab.verification.datasheet import datasheet as datasheet
from snellen_lab.verification.datasheet import make_datasheet as make_datasheet
from snellen_lab.verification.datasheet_page import write_datasheet as write_datasheet

__version__: str
__all__: list[str]

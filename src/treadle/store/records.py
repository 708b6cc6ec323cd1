"""All rows of the store, for what works with many of them; quick commands take what they need."""

from treadle.store.rows.check import CheckRow as CheckRow
from treadle.store.rows.check import Phase as Phase
from treadle.store.rows.letter import FolderRow as FolderRow
from treadle.store.rows.letter import LetterRow as LetterRow
from treadle.store.rows.message import MessageRow as MessageRow
from treadle.store.rows.mission import LaneRow as LaneRow
from treadle.store.rows.mission import MissionStepRow as MissionStepRow
from treadle.store.rows.note import ReservationRow as ReservationRow
from treadle.store.rows.note import TaskClaimRow as TaskClaimRow
from treadle.store.rows.question import QuestionRow as QuestionRow
from treadle.store.rows.run import Cursor as Cursor
from treadle.store.rows.run import Event as Event
from treadle.store.rows.run import RunRow as RunRow
from treadle.store.rows.run import StepRow as StepRow
from treadle.store.rows.run import UsageRow as UsageRow
from treadle.store.rows.task import MoveRow as MoveRow
from treadle.store.rows.task import TaskRow as TaskRow
from treadle.store.rows.worker import WorkerRow as WorkerRow

"""What lies in the folders of a run: written files, and the ids that Ray has noted as done.

    out/NAME-0.parquet               rows
    checkpoint/ids/NAME.parquet      their ids, once the file of rows is complete
    checkpoint/ids/NAME.pending.parquet   their ids, while it is written
    checkpoint/settings.json         what the run was started with

Ray writes the pending ids, then the rows, then renames the ids; on the way back it deletes the rows of pending ids. If
a task that has been retried is killed between these steps, or somebody deletes a file, ids may be noted whose rows are
gone. `reconcile` compares both sides before a run goes on, and removes what has no counterpart.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bridle.errors import FileError, shown
from bridle.extras import needed
from bridle.integrations.ray.counts import Counts, counted, file_system

_ROWS = re.compile(r"(\w+_[0-9a-f]{32}_\d{6,})-\d+\.parquet")  # as Ray names them: dataset, write, task, part
_IDS = re.compile(r"(\w+_[0-9a-f]{32}_\d{6,})(\.pending)?\.parquet")


@dataclass(frozen=True)
class Ledger:
    """The folders of a run.

    Parameters
    ----------
    out : str
        Absolute path or URI of the folder of rows.
    checkpoint : str
        The same, of the folder of ids and settings.
    """

    out: str
    checkpoint: str

    @property
    def ids(self) -> str:
        """Where Ray keeps ids."""
        return posixpath.join(self.checkpoint, "ids")

    def files(self) -> list[str]:
        """The files of rows, sorted."""
        files, folder = file_system(self.out)
        return [posixpath.join(folder, name) for name in _names(files, folder)]

    def counted(self, id_column: str, status: str) -> Counts:
        """What has been written."""
        return counted(file_system(self.out)[0], self.files(), id_column, status)

    def claim(self, settings: dict[str, Any]) -> None:
        """Note the settings of a new run, or compare them with those of the run that goes on.

        Raises
        ------
        FileError
            If they differ, or the folder of rows has files that no run with this checkpoint wrote.
        """
        files, folder = file_system(self.checkpoint)
        path = posixpath.join(folder, "settings.json")
        if _exists(files, path):
            with files.open_input_stream(path) as file:
                before = json.loads(file.read())
            other = [key for key in settings if before.get(key) != settings[key]]
            if other:
                raise FileError(
                    f"the run that is to go on had another {', '.join(other)}",
                    got=shown([settings[key] for key in other], 200),
                    wanted=shown([before.get(key) for key in other], 200),
                    where=self.checkpoint,
                    cause="Delete the folders of both rows and checkpoint to begin again, or write elsewhere.",
                )
            return
        if found := self.files():
            raise FileError(
                "there are files in the folder of the output, but no checkpoint of the run that wrote them",
                got=posixpath.basename(found[0]),
                wanted="an empty folder",
                where=self.out,
                cause="All rows would be written again. Delete the folder, or write elsewhere.",
            )
        files.create_dir(folder, recursive=True)
        with files.open_output_stream(path + ".new") as file:
            file.write(json.dumps(settings, indent=1).encode())
        files.move(path + ".new", path)

    def reconcile(self) -> int:
        """Remove rows whose ids are not noted as done, and ids whose rows are not there; how many files that were.

        Raises
        ------
        FileError
            If there is a file that Ray has not written.
        """
        files, out = file_system(self.out)
        notes, ids = file_system(self.ids)
        paths: dict[str, list[tuple[Any, str]]] = defaultdict(list)
        rows: dict[str, int] = defaultdict(int)  # written less noted
        broken = set()
        for where, folder, pattern, sign in ((files, out, _ROWS, 1), (notes, ids, _IDS, -1)):
            for file in _names(where, folder):
                found, path = pattern.fullmatch(file), posixpath.join(folder, file)
                if found is None:
                    raise FileError(
                        "a file is not of this run",
                        got=file,
                        wanted="only files that Ray wrote",
                        where=folder,
                        cause="Move it elsewhere, or write to another folder.",
                    )
                paths[found[1]].append((where, path))
                if (sign < 0 and found[2]) or (count := _rows(where, path)) is None:
                    broken.add(found[1])
                else:
                    rows[found[1]] += sign * count
        unequal = [path for name in paths if name in broken or rows[name] for path in paths[name]]
        for where, path in unequal:
            where.delete_file(path)
        return len(unequal)


def inside(path: str, folder: str) -> bool:
    """Is it this folder, or below it?"""
    return (path.rstrip("/") + "/").startswith(folder.rstrip("/") + "/")


def _exists(files: Any, path: str) -> bool:
    fs = needed("pyarrow.fs", "ray", "files of Ray need PyArrow")
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def _names(files: Any, folder: str) -> list[str]:
    """The names of the files in a folder, sorted; none if it does not exist."""
    fs = needed("pyarrow.fs", "ray", "files of Ray need PyArrow")
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type == fs.FileType.File)


def _rows(files: Any, path: str) -> int | None:
    """How many rows a Parquet file has; None if it is cut off."""
    pa, pq = needed("pyarrow", "ray", "files of Ray need PyArrow"), needed("pyarrow.parquet", "ray", "Parquet")
    try:
        return int(pq.read_metadata(path, filesystem=files).num_rows)
    except (pa.ArrowInvalid, OSError):
        return None

"""One process's work on a tune or benchmark run: trials to train, tests to read, what comes out."""

from __future__ import annotations

import functools
import json
import shutil

from recbole_residual.files import write_text
from recbole_residual.model.registry import MODELS
from recbole_residual.report.comparison import compare
from recbole_residual.tune import ray_api, table
from recbole_residual.tune.folder import FINISHED, Manifest, TuneFolder
from recbole_residual.tune.plan import Plan
from recbole_residual.tune.progress import Progress
from recbole_residual.tune.ray_api import Resources, TrialQueue
from recbole_residual.tune.result import TuneResult, best_in_words, in_short, plain_row
from recbole_residual.tune.scheduler import AshaByDataset
from recbole_residual.tune.searcher import PlannedSearcher, Suggestions
from recbole_residual.tune.shared_reads import SharedReads
from recbole_residual.tune.space import Space
from recbole_residual.tune.trial import Setup, read_test, trainable

MAX_FAILURES = 3
"""How often a trial whose process died is started again, from its last whole epoch."""


class TuneWork:
    """One process's work on a run.

    Args:
        folder: of the run.
        manifest: its plan.
        plan: what makes further trials; by default from the manifest.
    """

    def __init__(self, folder: TuneFolder, manifest: Manifest, plan: Plan | None = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.plan = plan or Plan.of_plain(manifest.bases)
        self.space = Space.read(manifest.space)
        self.resources = Resources(**manifest.resources)

    def finish(self) -> TuneResult:
        """Do what is left to do."""
        with self.folder.claimed():
            self.folder.write_manifest(self.manifest)
            self.progress = Progress(self.folder, self.manifest)
            try:
                with self.progress.shown():
                    if self._to_train() or self._to_test():
                        with ray_api.connected(self.resources.ray_address):
                            ray_api.check_resources(self.resources)
                            self._work()
            except (KeyboardInterrupt, ray_api.RayDiedError) as reason:
                self.progress.refresh(force=True)
                self.progress.announce(
                    f"{str(reason) or 'Interrupted.'} To go on: --resume={self.folder}"
                )
                raise
            return self._result()

    def _to_train(self) -> int:
        """How many trials have not ended."""
        if self.space.sequential:
            return self.space.num_samples - len(self.progress.outcomes)
        return len(self.progress.unfinished())

    def _to_test(self) -> list[str]:
        if self.manifest.mode == "benchmark":
            return []
        best = table.best_trials(self.manifest, self.progress.outcomes).values()
        return [key for key in best if "test_result" not in self.progress.outcomes[key]]

    def _work(self) -> None:
        self.progress.announce(f"After an interruption, go on with --resume={self.folder}")
        gpus = ray_api.gpus_per_trial(self.resources)
        if self.resources.gpus_per_trial and not gpus:
            self.progress.announce("There is no GPU: trials run on the processor.")
        setup = self._setup(gpus)
        if self._to_train():
            self._train(setup, gpus)
        keys = self._to_test()
        if keys:
            self.progress.say(f"Reading the test data for {', '.join(keys)}")
            ray_api.in_worker(
                read_test, [(key, setup) for key in keys], self.resources, gpus, MAX_FAILURES
            )
            for key in keys:
                self.progress.read(key)

    def _setup(self, gpus: float) -> Setup:
        reads = SharedReads(ray_api.put, ray_api.get)
        for base in self.plan.bases:
            source = reads.read(base.config)
            self.progress.say(f"Data of {base.config['dataset']}: {source}")
        own = __name__.partition(".")[0]
        return Setup(
            folder=str(self.folder),
            tests=self.manifest.mode == "benchmark",
            sign=1 if self.manifest.bigger else -1,
            alpha_search=self.space.alpha_search,
            cpus=self.resources.cpus_per_trial,
            gpus=gpus,
            reads=reads,
            models=tuple(
                model for model in MODELS.values() if model.__module__.partition(".")[0] != own
            ),
        )

    def _train(self, setup: Setup, gpus: float) -> None:
        progress, space = self.progress, self.space
        progress.refresh(force=True)
        searcher = PlannedSearcher(progress.unfinished(), self._suggestions())
        scheduler = None
        if space.scheduler == "asha":
            scheduler = AshaByDataset(space.grace_period, space.reduction_factor, progress.stopped)
            for dataset, histories in progress.histories().items():
                scheduler.remember(dataset, histories)
        queue = TrialQueue(
            searcher,
            n_trials=self._to_train(),
            ahead=1 if space.sequential else ray_api.places(self.resources, gpus),
            scheduler=scheduler,
            callbacks=[progress],
            max_failures=MAX_FAILURES,
        )
        ray_api.fit(
            functools.partial(trainable, setup=setup),
            queue,
            self.resources,
            gpus,
            str(self.folder.ray_folder),
        )
        shutil.rmtree(self.folder.ray_folder, ignore_errors=True)  # nothing of it is read again
        if progress.interrupted() or not (searcher.exhausted or not self._to_train()):
            raise KeyboardInterrupt  # Ray has taken Ctrl-C and returns what it has

    def _suggestions(self) -> Suggestions | None:
        if not self.space.sequential:
            return None
        trials = self.manifest.trials
        return Suggestions(
            ray_api.search_algorithm(
                self.space.search,
                {name: part.domain() for name, part in self.space.parameters.items()},
                [trial.point for trial in trials],
                self.space.seed,
            ),
            trials,
            self.progress.scores(),
            self.space.num_samples,
            lambda number, point: self.plan.trial(number, self.space.plain(point)),
            self.progress.add,
        )

    def _result(self) -> TuneResult:
        progress, manifest = self.progress, self.manifest
        progress.refresh(force=True)
        results = progress.results()
        keys = table.best_trials(manifest, progress.outcomes)
        by_key = results.set_index("trial", drop=False)
        best = {dataset: plain_row(by_key.loc[key].to_dict()) for dataset, key in keys.items()}
        summary = None
        text = progress.text(results)
        if manifest.mode == "benchmark":
            summary = table.summary_table(results)
            write_text(self.folder.summary_file, table.to_csv(summary))
            text += f"\n\n{in_short(summary, manifest.metric)}"
            self._report()
        else:
            if not best:
                text += f"\n\nNo trial got to an end; their logs are in {self.folder}/trials."
            for dataset, row in best.items():
                text += f"\n\n{best_in_words(dataset, row, manifest.metric, self.folder)}"
        content = {
            "mode": manifest.mode,
            "valid_metric": manifest.metric,
            "trials": results["status"].value_counts().to_dict(),
            "best": best,
        }
        write_text(self.folder.result_file, json.dumps(content, indent=2) + "\n")
        progress.log(text)
        return TuneResult(str(self.folder), manifest.mode, results, best, summary, text)

    def _report(self) -> None:
        """One page on all trials, if the configuration wants reports."""
        outcomes = self.progress.outcomes
        wanted = {
            (base.config["model"], base.config["dataset"]): base.config["report"]
            for base in self.plan.bases
        }
        folders = [
            self.folder.trial(trial.key).path
            for trial in self.manifest.trials
            if wanted[trial.model, trial.dataset]
            and outcomes.get(trial.key, {}).get("status") == FINISHED
        ]
        if len(folders) > 1:  # a single trial has a report of its own
            page, *_ = compare(folders).save(self.folder.report_folder)
            self.progress.announce(f"Saved {page}")

#pragma once

#include <string>
#include <vector>

#include "actors/telemetry/live_history.hpp"
#include "cluster/control/control_link.hpp"

namespace millrace::actors {

/// The constant facts about a run.
struct LiveRun {
  std::string directory;  // empty: none
  std::string model;      // "llama | 869.8k parameters | …"
  std::string dtype, schedule, layout;
  int processes = 1, ranks = 1;
  std::int64_t first_step = 0, steps = 0, microbatches = 0;
  double peak_flops = 0;  // of all cores that compute; 0: not known
  int copies = 1;         // of the pipeline, each with as many of the ranks
};

/// One rank, as process 0 knows it.
struct LiveRank {
  int process = 0;
  bool known = false;          // whether it has reported
  cluster::Progress progress;  // as last reported
  double seconds = 0;          // time in the current activity
  double heard_seconds = 0;    // time since the last report; 0 for ranks of process 0
};

/// A run at one moment: the content of the status pages.
struct LiveView {
  LiveRun run;
  double up_seconds = 0;  // since this start of the run
  std::vector<LiveRank> ranks;
  LiveTotals totals;
};

/// The body of /status. Schema 1: docs/live.md.
[[nodiscard]] std::string status_json(const LiveView& view);
/// The body of /metrics: Prometheus' text format 0.0.4.
[[nodiscard]] std::string metrics_text(const LiveView& view);

}  // namespace millrace::actors

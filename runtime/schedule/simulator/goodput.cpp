#include "runtime/schedule/simulator/goodput.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"

namespace millrace::runtime {

Goodput goodput(const FailureModel& failures, double ranks, double step) {
  const auto& [rank_interval, snapshot, restart] = failures;
  MILLRACE_CHECK(rank_interval >= 0 && snapshot >= 0 && restart >= 0 && step > 0 && ranks >= 1, ExitCode::internal, "runtime.schedule",
                 "failures every {}, snapshot {}, restart {}, step {}, {} ranks, expected times of 0 or more, a step and a rank",
                 rank_interval, snapshot, restart, step, ranks);
  if (rank_interval == 0) return {};
  Goodput result;
  result.job_interval = rank_interval / ranks;
  result.snapshot_interval = std::max(step, std::sqrt(2 * snapshot * result.job_interval));
  const double whole = result.snapshot_interval + snapshot;
  result.useful = result.snapshot_interval / (whole + whole / result.job_interval * (whole / 2 + restart));
  return result;
}

}  // namespace millrace::runtime

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/expert_load.hpp"
#include "runtime/profile/attribution.hpp"
#include "runtime/profile/exchange_time.hpp"
#include "runtime/profile/layout_cost.hpp"
#include "runtime/profile/memory_use.hpp"
#include "runtime/profile/prediction.hpp"
#include "runtime/profile/step_view.hpp"
#include "runtime/profile/transfer_time.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

// Plain structs of a profile: the measurements and what was derived from them. Times are nanoseconds of process 0's steady clock
// unless a name says otherwise.
namespace millrace::runtime {

/// The run that was profiled.
struct ProfiledRun {
  std::string kind = "training";  // "training", or "rehearsal": timers in place of compute
  std::string model, dtype, layout, build;
  std::int64_t parameters = 0;
  int processes = 1;
  int threads = 1;  // per rank
  std::int64_t tokens_per_step = 0;
  double flops_per_step = 0;  // model FLOPs; 0: unknown
};

/// The peak of a rank's cores, measured here, or of its GPU, from the data sheet. 0: not known.
struct Machine {
  double peak_flops = 0;        // FLOP/s of one rank's cores, or its GPU
  double memory_bandwidth = 0;  // byte/s of one rank's cores, read and written
  double job_peak_flops = 0;    // FLOP/s of all cores that compute, or all GPUs
  std::string doubt = {};       // why a measured peak is not to be believed; empty if it is
};

/// A process's clock relative to that of process 0, measured by pings over the control link. Two processes of one kernel share a
/// clock: their offset is known to be 0, and `measured` shows how accurate the pings are.
struct ProcessClock {
  int process = 0;
  std::string host;
  bool shared = true;         // runs on the same kernel as process 0
  std::int64_t offset = 0;    // added to this process's times; 0 if shared
  std::int64_t bound = 0;     // bound of the offset's error: half of the smallest round trip; 0 if shared
  std::int64_t measured = 0;  // the offset measured by the pings, shared or not
  std::int64_t round_trip = 0;
  int pings = 0;
};

/// The total time of one operation of a stage over all profiled steps.
struct OperationTime {
  StageId stage;
  int layer = -1;    // −1: none
  std::string name;  // "layers.1.mlp.up_proj"
  std::string kind;  // "matmul"
  char pass = 'F';   // F, I, W, B
  std::int64_t count = 0, nanoseconds = 0;
  double flops = 0, bytes = 0;  // sums over all `count` runs
};

/// The total time of one kind of action of a stage on a GPU, over all profiled steps.
struct DeviceActions {
  StageId stage;
  char pass = 'F';  // F, I, W, B
  std::int64_t count = 0;
  std::int64_t device = 0, host = 0;  // nanoseconds on the GPU, and of the worker for enqueuing
};

/// Everything that was measured. `traces` is indexed by rank, `steps` are sorted oldest first.
struct Measured {
  ProfiledRun run;
  Machine machine;
  Schedule schedule;
  std::vector<int> layers;           // number of decoder layers of each stage
  int modules = 0;                   // of these, the modules of multi-token prediction behind the last decoder layer
  std::vector<bool> divided;         // by stage: whether it has only a part of a layer; empty: none has
  Exchanging exchanging;             // where ranks exchange rows inside of actions
  std::vector<int> process_of_rank;  // by rank
  std::vector<ProcessClock> clocks;  // by process
  std::vector<RankTrace> traces;
  std::vector<StepId> steps;
  std::vector<double> losses;                 // of the steps; empty: not available
  std::vector<ExpertLoad> experts;            // of all routers, added over the steps; empty: no experts, or not available
  std::vector<OperationTime> operations;      // empty: not measured
  std::vector<MemoryOfRank> memory;           // by rank; empty: not measured
  std::vector<DeviceActions> device_actions;  // for ranks on GPUs; empty: not measured
  std::vector<std::int64_t> launch_gaps;      // by rank, idle nanoseconds of its GPU between operations; empty: no GPUs, or not measured
  std::string doubt;                          // why the times may be those of other programs too; empty: nothing speaks for it
  /// Durations of the actions assumed before the run, in milliseconds: those of a rehearsal, or of pipeline.costs.
  std::optional<Costs> planned;
};

/// A reason why a step took longer than necessary.
struct Lateness {
  double cost = 0;  // ms per step
  std::string what;
  RankId rank;
  StageId stage = no_stage;
};

struct ProfiledStep {
  StepView view;
  std::optional<double> loss;
  double mfu = 0;        // 0 if not known
  double predicted = 0;  // ms: the simulated list and the measured time after it
  std::vector<Attribution> ranks;
};

/// A simulated step beside the measured one. Milliseconds; bubbles are means over ranks.
struct Prediction {
  std::string source;  // describes where its costs come from
  Costs costs;
  Simulation simulation;
  double duration = 0, measured_duration = 0;
  double bubble = 0, measured_bubble = 0;
  /// The duration predicted from pipeline.costs, if the rest was computed from other costs.
  std::optional<double> promised_duration;
};

struct Profile {
  Measured measured;
  std::vector<ProfiledStep> steps;
  std::size_t shown = 0;  // index of the step whose timeline is shown: the one of median duration
  Prediction prediction;
  std::vector<Lateness> lateness;       // the costliest, at most ten
  std::optional<LayoutCost> layout;     // what unequal stages cost; empty: next to nothing
  std::vector<MemoryUse> memory;        // by rank, for the shown step; empty: not measured
  std::vector<ExchangeTime> exchanges;  // over all profiled steps; empty: ranks exchange nothing
  std::vector<TransferTime> transfers;  // the same for transfers between replicas that divide their update
  [[nodiscard]] std::int64_t origin() const { return steps.front().view.begin; }
};

}  // namespace millrace::runtime

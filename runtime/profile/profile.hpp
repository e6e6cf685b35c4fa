#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/profile/attribution.hpp"
#include "runtime/profile/memory_use.hpp"
#include "runtime/profile/step_view.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

// Plain structs of a profile: what was measured, and what was made of it. Times are nanoseconds of process 0's steady clock unless a name
// says otherwise.
namespace millrace::runtime {

/// What was run.
struct ProfiledRun {
  std::string kind = "training";  // or "rehearsal": timers in the place of compute
  std::string model, dtype, layout, build;
  std::int64_t parameters = 0;
  int processes = 1;
  int threads = 1;  // of a rank
  std::int64_t tokens_per_step = 0;
  double flops_per_step = 0;  // model FLOPs; 0: unknown
};

/// What a rank's cores do at best, measured here, or its GPU by the data sheet. 0: not known.
struct Machine {
  double peak_flops = 0;        // FLOP/s of one rank's cores, or its GPU
  double memory_bandwidth = 0;  // byte/s of one rank's cores, read and written
  double job_peak_flops = 0;    // FLOP/s of all cores that compute, or all GPUs
};

/// A process's clock against that of process 0, by pings over the control link. Two processes of one kernel have one clock: then the offset
/// is known to be 0, and `measured` shows how well the pings find it.
struct ProcessClock {
  int process = 0;
  std::string host;
  bool shared = true;         // one kernel with process 0
  std::int64_t offset = 0;    // was added to this process's times; 0 where shared
  std::int64_t bound = 0;     // how far off the offset can be: half of the smallest round trip; 0 where shared
  std::int64_t measured = 0;  // the offset that the pings found, shared or not
  std::int64_t round_trip = 0;
  int pings = 0;
};

/// What one operation of a stage took in all profiled steps together.
struct OperationTime {
  StageId stage;
  int layer = -1;    // −1: none
  std::string name;  // "layers.1.mlp.up_proj"
  std::string kind;  // "matmul"
  char pass = 'F';   // F, I, W, B
  std::int64_t count = 0, nanoseconds = 0;
  double flops = 0, bytes = 0;  // of all `count`
};

/// What one kind of action of a stage took on a GPU in all profiled steps together.
struct DeviceActions {
  StageId stage;
  char pass = 'F';  // F, I, W, B
  std::int64_t count = 0;
  std::int64_t device = 0, host = 0;  // nanoseconds: of the GPU; of the worker, to queue them
};

/// Everything that was measured. `traces` by rank, `steps` oldest first.
struct Measured {
  ProfiledRun run;
  Machine machine;
  Schedule schedule;
  std::vector<int> layers;           // decoder layers of each stage
  std::vector<int> process_of_rank;  // by rank
  std::vector<ProcessClock> clocks;  // by process
  std::vector<RankTrace> traces;
  std::vector<StepId> steps;
  std::vector<double> losses;                 // of the steps; empty: none
  std::vector<OperationTime> operations;      // empty: not measured
  std::vector<MemoryOfRank> memory;           // by rank; empty: not measured
  std::vector<DeviceActions> device_actions;  // of ranks on GPUs; empty: not measured
  std::vector<std::int64_t> launch_gaps;      // by rank, nanoseconds of its GPU between operations; empty: no GPUs, or not measured
  /// What the actions were said to last before the run, milliseconds: of a rehearsal, or of pipeline.costs.
  std::optional<Costs> planned;
};

/// Why a step took longer than it would have to.
struct Lateness {
  double cost = 0;  // ms a step
  std::string what;
  RankId rank;
  StageId stage = no_stage;
};

struct ProfiledStep {
  StepView view;
  std::optional<double> loss;
  double mfu = 0;        // 0 where it is not known
  double predicted = 0;  // ms: the list as planned, and what came after it
  std::vector<Attribution> ranks;
};

/// A step laid out beforehand, beside what came. Milliseconds; bubbles are means over ranks.
struct Prediction {
  std::string source;  // what its costs are, in words
  Costs costs;
  Simulation simulation;
  double duration = 0, measured_duration = 0;
  double bubble = 0, measured_bubble = 0;
  /// What pipeline.costs had promised, where that is not what the rest was made from.
  std::optional<double> promised_duration;
};

struct Profile {
  Measured measured;
  std::vector<ProfiledStep> steps;
  std::size_t shown = 0;  // the step whose timeline is shown: the median by duration
  Prediction prediction;
  std::vector<Lateness> lateness;  // the costliest, ten at most
  std::vector<MemoryUse> memory;   // by rank, of the shown step; empty: not measured
  [[nodiscard]] std::int64_t origin() const { return steps.front().view.begin; }
};

}  // namespace millrace::runtime

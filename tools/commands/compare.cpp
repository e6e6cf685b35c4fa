// millrace compare: the first tensor in which two recorded runs differ, and its values.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/debug/recapture_tensor.hpp"
#include "actors/debug/tensor_text.hpp"
#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/io/first_difference.hpp"
#include "runtime/io/hash.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/recorded_run.hpp"

namespace millrace::tools {

namespace {

constexpr const char* compare_component = "millrace compare";

/// One of the two runs.
struct Side {
  std::string directory;
  RecordedRun run;
  runtime::HashRecording recording;

  explicit Side(const std::string& run_directory)
      : directory(run_directory), run(recorded_run({run_directory}, compare_component)), recording(run_directory) {}
};

/// Prints the keys whose values differ and affect the numbers.
void print_settings(const Side& left, const Side& right) {
  const auto& there = right.run.settings.identity.keys;
  for (const auto& [key, value] : left.run.settings.identity.keys) {
    const auto other = there.find(key);
    if (other != there.end() && other->second != value) fmt::print("{} = {} here, {} there\n", key, value, other->second);
  }
}

/// Why a tensor may be in one recording alone.
std::string reason_of_absence(const Side& left, const Side& right) {
  const auto &here = left.run.settings, &there = right.run.settings;
  std::vector<std::string> reasons;
  if (here.rematerialize != there.rematerialize) reasons.emplace_back("different values are rematerialized (rematerialize)");
  if (here.mesh.capacity != there.mesh.capacity) reasons.emplace_back("values of rounds are not recorded (experts.capacity)");
  if (here.mesh.expert != there.mesh.expert)
    reasons.emplace_back("ranks that share experts order their rows in another way than one rank (mesh.expert)");
  if (const auto gathers = [](const auto& run) { return run.mesh.shard == "parameters" && run.train.dtype == "bf16"; };
      gathers(here) != gathers(there))
    reasons.emplace_back("of bf16 weights that are divided nobody has all in fp32 (mesh.shard = parameters)");
  if (reasons.empty() && here.model.experts > 0) reasons.emplace_back("an expert has no values where it got no rows");
  if (here.internal_metrics != there.internal_metrics)
    reasons.emplace_back("statistics of layers are recorded too (run.record_internal_metrics)");
  return reasons.empty() ? "" : fmt::format(": {}", fmt::join(reasons, "; "));
}

std::string describe(const runtime::Difference& difference) {
  const auto& [moment, microbatch, tensor] = difference.left.place;
  const int here = difference.left.record.stage, there = difference.right.record.stage;
  const auto stage = here == there ? fmt::format("stage {}", here) : fmt::format("stage {} here, {} there", here, there);
  if (moment == runtime::TensorMoment::weight)
    return fmt::format("step {}, before its first action, {}, weight {}", difference.step, stage, tensor);
  return fmt::format("step {}, microbatch {}, {}, {}, operation {}, tensor {}", difference.step, microbatch, stage, to_string(moment),
                     difference.left.operation, tensor);
}

/// Runs the step again and returns the tensor that it computes; prints a line if its hash differs from the recorded one.
std::optional<actors::RecapturedTensor> run_again(const Side& side, std::int64_t step, const runtime::RecordedHash& recorded) {
  try {
    const auto run = run_before(side.run.settings, side.directory, step);
    auto values = actors::recapture_tensor(*run, step, recorded);
    if (!values) {
      fmt::print("{}: the step was run again, but did not compute this tensor\n", side.directory);
    } else if (runtime::hash_of(std::span<const std::byte>(values->bytes)).low != recorded.record.hash) {
      fmt::print(
          "{}: the step was run again and gave other values than recorded: the cause of the difference is not in its description, data or "
          "checkpoints\n",
          side.directory);
    }
    return values;
  } catch (const Error& error) {
    fmt::print("{}: cannot be run again for the values: {}\n", side.directory, without_component(error.what()));
    return std::nullopt;
  }
}

void print_values(const Side& left, const Side& right, const runtime::Difference& difference) {
  const auto here = run_again(left, difference.step, difference.left);
  const auto there = run_again(right, difference.step, difference.right);
  if (!here || !there) return;
  if (here->tensor.shape.sizes() != there->tensor.shape.sizes() || here->tensor.dtype != there->tensor.dtype) {
    fmt::print("{} {} here, {} {} there\n", to_string(here->tensor.dtype), to_string(here->tensor.shape), to_string(there->tensor.dtype),
               to_string(there->tensor.shape));
  } else if (here->bytes == there->bytes) {
    fmt::print("when run again, both give the same values\n");
  } else {
    fmt::print("{} {}: {}\n", to_string(here->tensor.dtype), to_string(here->tensor.shape),
               actors::differences(here->tensor, there->tensor));
  }
}

int compare(const Arguments& parsed) {
  MILLRACE_CHECK(parsed.positional().size() == 2, ExitCode::usage, compare_component, "{}, expected the directories of two runs",
                 counted(parsed.positional().size(), "name"));
  cluster::widen_affinity();
  const Side left(parsed.positional()[0]), right(parsed.positional()[1]);
  print_warnings(left.run.model_warnings);
  if (right.run.model_warnings != left.run.model_warnings) print_warnings(right.run.model_warnings);
  print_settings(left, right);
  const auto found = runtime::first_difference(left.recording, right.recording);
  fmt::print("steps {} to {} are in both recordings; {} of them identical, {}\n", found.first_step, found.last_step, found.equal_steps,
             counted(found.equal_tensors, "tensor"));
  for (const Side* side : {&left, &right})
    if (const auto last = side->recording.steps().rbegin()->first; last > found.last_step)
      fmt::print("{} goes on to step {}, of which the other has no whole recording\n", side->directory, last);
  if (found.only_left + found.only_right > 0)
    fmt::print("only here {}, only there {}{}\n", counted(found.only_left, "tensor"), found.only_right, reason_of_absence(left, right));
  if (!found.first) {
    fmt::print("identical\n");
    return 0;
  }
  fmt::print("first difference: {}\n{} of the {} tensors of this step differ; everything before it is identical\n", describe(*found.first),
             found.first->differing, found.first->compared);
  print_values(left, right, *found.first);
  return 1;
}

}  // namespace

Command compare_command() {
  return {.name = "compare",
          .words = "RUN_A RUN_B",
          .summary = "Find where two recorded runs first differ: step, microbatch, stage, operation, tensor, values.",
          .notes =
              "Both were trained with `millrace train RUN.toml --record hashes`, each on any number of ranks. To print values, both are "
              "run again in this process, from their nearest checkpoints. Nothing is written. Ends with 0 if they are identical, with 1 "
              "if they differ.",
          .offer = offer_folders,
          .run = compare};
}

}  // namespace millrace::tools

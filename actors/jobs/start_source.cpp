#include "actors/jobs/start_source.hpp"

#include <algorithm>
#include <set>

#include "actors/jobs/run_setup.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/engine/update_rule.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors_header.hpp"

namespace millrace::actors {
namespace {

constexpr const char* component = "actors.start_source";

std::string run_text(const runtime::CheckpointReader& source) { return fmt::format("run {} ", source.manifest().run); }

/// The step in a value of start_key.
std::uint64_t step_in(const std::string& recorded) {
  const auto at = recorded.find("step ");
  return at == std::string::npos ? 0 : std::strtoull(recorded.c_str() + at + 5, nullptr, 10);
}

runtime::FileDType file_dtype(kernels::DType dtype) {
  return dtype == kernels::DType::bf16 ? runtime::FileDType::bf16 : runtime::FileDType::f32;
}

/// "it has optimizer states adamw.m, adamw.v".
std::string states_text(const runtime::CheckpointReader& source) {
  std::set<std::string> names;
  for (const auto& tensor : source.manifest().tensors)
    if (const auto slash = tensor.name.find('/'); slash != std::string::npos && !tensor.name.starts_with(runtime::run_state_prefix))
      names.insert(tensor.name.substr(0, slash));
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "it has no optimizer states" : "its optimizer states are " + text;
}

/// Checks one tensor of the new run.
void check_tensor(const runtime::CheckpointReader& source, const std::string& name, const std::vector<std::int64_t>& shape,
                  runtime::FileDType dtype, const std::string& if_missing) {
  const auto* found = source.find(name);
  MILLRACE_CHECK(found != nullptr, ExitCode::checkpoint, component, "{} = {}: there is no tensor '{}', expected {} {}{}", start_key,
                 source.folder(), name, to_string(dtype), runtime::shape_text(shape), if_missing);
  MILLRACE_CHECK(found->shape == shape && found->dtype == dtype, ExitCode::checkpoint, component,
                 "{} = {}: tensor '{}' is {} {}, expected {} {} as in this run's model", start_key, source.folder(), name,
                 to_string(found->dtype), runtime::shape_text(found->shape), to_string(dtype), runtime::shape_text(shape));
}

}  // namespace

bool takes_state(const runtime::TrainConfig& train) { return train.start_with == "state"; }

const char* taken_text(bool state) { return state ? "weights and optimizer states" : "weights"; }

runtime::CheckpointReader open_start(const std::string& start_from, const std::string& recorded) {
  try {
    if (recorded.empty() || runtime::is_checkpoint(start_from)) return runtime::open_checkpoint(start_from, component);
    const auto folder = runtime::join_path(runtime::checkpoints_folder(start_from), runtime::checkpoint_name(step_in(recorded)));
    MILLRACE_CHECK(runtime::kind_of(folder) != runtime::PathKind::missing, ExitCode::checkpoint, component,
                   "{}: there is no such folder any more, but this run began with it", folder);
    return runtime::CheckpointReader(folder);
  } catch (const Error& error) {
    if (error.code() != ExitCode::checkpoint) throw;
    auto reason = without_component(error.what());
    if (reason.starts_with(start_from + ": ")) reason.remove_prefix(start_from.size() + 2);
    throw Error(error.code(), fmt::format("[{}] {} = {}: {}", component, start_key, start_from, reason));
  }
}

void check_start(const runtime::CheckpointReader& source, const PipelinePlan& plan, const runtime::TrainConfig& train) {
  const bool state = takes_state(train);
  std::set<std::string> known;
  for (const auto& parameter : plan.parameters) {
    known.insert(parameter.name);
    check_tensor(source, parameter.name, parameter.shape.sizes(), runtime::FileDType::f32, "; the models differ");
    if (!state || !plan.is_trained(parameter)) continue;
    const auto matrices = plan.matrices.matrices(parameter.name, parameter.shape, parameter.stored);
    for (std::size_t index = 0; index < plan.optimizer->states().size(); ++index) {
      const auto& each = plan.optimizer->states()[index];
      if (plan.optimizer->keeps(index, matrices))
        check_tensor(source, each.tensor_name(parameter.name), parameter.shape.sizes(), file_dtype(each.dtype),
                     fmt::format(" for train.start_with = state: {}", states_text(source)));
    }
  }
  const auto& identity = source.meta().identity;
  const auto recorded = identity.find("train.optimizer");
  const std::string own = fmt::format("\"{}\"", train.optimizer);
  const std::string used = recorded == identity.end() ? "\"adamw\"" : recorded->second;  // older checkpoints are all AdamW's
  MILLRACE_CHECK(!state || used == own, ExitCode::checkpoint, component,
                 "{} = {} with train.start_with = state: its run has train.optimizer = {}, and this one {}; expected the same one, or "
                 "train.start_with = weights",
                 start_key, source.folder(), used, own);
  for (const auto& tensor : source.manifest().tensors)
    MILLRACE_CHECK(tensor.name.find('/') != std::string::npos || known.contains(tensor.name), ExitCode::checkpoint, component,
                   "{} = {}: it has a tensor '{}' {}, which this run's model does not have", start_key, source.folder(), tensor.name,
                   runtime::shape_text(tensor.shape));
}

std::string recorded_start(const runtime::CheckpointReader& checkpoint) {
  const auto& identity = checkpoint.meta().identity;
  const auto found = identity.find(start_key);
  return found == identity.end() ? std::string() : found->second;
}

std::string start_identity(const runtime::CheckpointReader& source) {
  return fmt::format("{}step {} (state {})", run_text(source), source.step(), source.state_hash().hex());
}

std::string resumed_start_identity(const std::string& start_from, const std::string& recorded) {
  if (start_from.empty()) return {};
  try {
    const auto source = open_start(start_from);
    const bool same = runtime::is_checkpoint(start_from) ? start_identity(source) == recorded : recorded.starts_with(run_text(source));
    return same ? recorded : start_identity(source);
  } catch (const Error&) {
    return recorded.empty() ? start_from : recorded;  // the other run may be gone by now
  }
}

std::string noted_start(const runtime::CheckpointReader& checkpoint) {
  const auto& notes = checkpoint.meta().notes;
  const auto found = notes.find(start_key);
  return found == notes.end() ? std::string() : found->second;
}

void check_resumed_start(const runtime::CheckpointReader& checkpoint, const std::string& start_from, const std::string& now) {
  const std::string recorded = recorded_start(checkpoint);
  if (now == recorded) return;
  const std::string folder = noted_start(checkpoint);
  const std::string before = recorded.empty() ? "with weights of its own, not those of another run"
                             : folder.empty() ? fmt::format("with the weights of {}", recorded)
                                              : fmt::format("with the weights of {}", folder);
  fail(ExitCode::checkpoint, component, "{}: this run began {}; now {}. {}, or begin a new run with another run.directory",
       checkpoint.folder(), before,
       start_from.empty() ? fmt::format("{} is not given", start_key)
                          : fmt::format("{} = {}, which is another state", start_key, start_from),
       recorded.empty() ? fmt::format("Leave {} out", start_key)
       : folder.empty() ? fmt::format("Set {} to that run", start_key)
                        : fmt::format("Set {} = {}", start_key, folder));
}

std::int64_t updates_seen(const runtime::CheckpointReader& source) {
  return runtime::updates_seen(static_cast<std::int64_t>(source.step()), run_state_of(source));
}

}  // namespace millrace::actors

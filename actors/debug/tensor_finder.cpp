#include "actors/debug/tensor_finder.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "actors/debug/breakpoint.hpp"
#include "actors/debug/component.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/program/expert_slices.hpp"

namespace millrace::actors {
namespace {

using runtime::Region;

/// Where in a program a value is first written and last read; −1: nowhere.
struct Life {
  int written = -1, last_read = -1;
};

Life life_of(const std::vector<runtime::Operation>& program, runtime::ValueId value) {
  Life life;
  for (std::size_t index = 0; index < program.size(); ++index) {
    const auto& operation = program[index];
    const auto has = [&](const auto& values) { return std::find(values.begin(), values.end(), value) != values.end(); };
    if (life.written < 0 && has(operation.outputs)) life.written = static_cast<int>(index);
    if (has(operation.inputs)) life.last_read = static_cast<int>(index);
  }
  return life;
}

/// Whether everything that the current program writes to the region remains until the end of the action and after.
bool outlives_action(Region region) { return region != Region::workspace; }

}  // namespace

TensorFinder::TensorFinder(const actors::Stepper& stepper, const DebugCursor& standing) : stepper_(stepper), standing_(standing) {
  add_weights();
  if (standing_.action) add_values();
}

void TensorFinder::add_weights() {
  const auto of_rank = [&](runtime::RankId id) {
    for (const auto* stage : stepper_.rank(id).compute().stages()) add_weights(id, stage->shard());
  };
  of_rank(standing_.rank);
  for (int index = 0; index < stepper_.plan().ranks(); ++index)
    if (index != standing_.rank.value) of_rank(runtime::RankId(index));
}

void TensorFinder::add_weights(runtime::RankId rank, const runtime::StageShard& shard) {
  for (const auto& tensor : shard.tensors()) {
    const auto add = [&](const std::string& name, const std::string& what, const kernels::Tensor& found) {
      entries_.push_back({{name, fmt::format("{} on rank {}", what, rank), found}, ""});
    };
    if (tensor.is_owner()) {
      if (!tensor.masters_divided) add(tensor.name, "weight", shard.master(tensor));
      if (!tensor.sums_divided) add("grad." + tensor.name, "gradient sum", shard.gradient(tensor));
    }
    const runtime::ElementRange reported = tensor.reported();
    if (reported.empty()) continue;
    const bool whole = reported == tensor.whole();
    const runtime::ElementRange elements = tensor.in_model(reported);
    const std::string part = whole ? "" : fmt::format("[{}:{}]", elements.first, elements.end());
    if (tensor.masters_divided) add(tensor.name + part, "weight", shard.master(tensor));
    if (tensor.sums_divided) add("grad." + tensor.name + part, "gradient sum", shard.gradient(tensor));
    for (std::size_t i = 0; i < shard.states().size(); ++i) {
      if (!tensor.has_state(i)) continue;
      const auto& state = shard.states()[i];
      add(state.tensor_name(tensor.name) + part, "state " + state.name, shard.state(tensor, i));
    }
  }
}

void TensorFinder::add_values() {
  const auto& action = *standing_.action;
  const auto& compute = stepper_.rank(standing_.rank).compute();
  const auto& stage = compute.stage(action.action.stage);
  const auto& programs = stage.programs(action.pass);
  const auto& places = stage.plan(action.pass).placements;
  const auto& program = programs.program(runtime::program_of(action.pass));
  const int at = static_cast<int>(operations_run(programs, standing_));
  for (std::size_t index = 0; index < programs.values.size(); ++index) {
    const auto& value = programs.values[index];
    const runtime::ValueId id{static_cast<std::int32_t>(index)};
    if (value.role == runtime::Role::parameter || value.role == runtime::Role::accumulator || value.role == runtime::Role::batch) continue;
    const auto life = life_of(program, id);
    Entry entry{{value.name, fmt::format("of {} on rank {}", action.action, standing_.rank), stage.tensor(action.pass, id, action.slots)},
                ""};
    if (life.written < 0 && life.last_read < 0) {
      entry.missing = fmt::format("does not belong to {}, the current action", action.action);
    } else if (life.written >= at) {
      entry.missing = fmt::format("is written by operation {} of {}, which has not run", life.written, action.action);
    } else if (!outlives_action(places[index].region) && life.last_read < at) {
      entry.missing =
          fmt::format("is in memory from operation {} to {} of {} only: break there (break stage {} {} microbatch {} op {})", life.written,
                      life.last_read, action.action, action.action.stage, runtime::to_string(runtime::program_of(action.pass)),
                      action.action.microbatch, program[static_cast<std::size_t>(std::max(life.last_read, 0))].name);
    }
    entries_.push_back(std::move(entry));
  }
  const auto batch = compute.batch(action.slots.batch);
  const auto& plan = stepper_.plan();
  for (const runtime::BatchField& field : runtime::batch_fields)
    entries_.push_back({{std::string(field.name), fmt::format("of microbatch {} on rank {}", action.action.microbatch, standing_.rank),
                         kernels::make_tensor((batch.*field.array).data(), kernels::DType::i32, {plan.rows, plan.sequence})},
                        ""});
}

std::vector<std::string> TensorFinder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.named.name);
  return names;
}

std::vector<NamedTensor> TensorFinder::weights() const {
  std::vector<NamedTensor> found;
  for (const auto& entry : entries_)
    if (entry.named.where.starts_with("weight") || entry.named.where.starts_with("gradient")) found.push_back(entry.named);
  return found;
}

/// The stack of which this names an expert's part: as checkpoints do, "model.layers.1.mlp.experts.3.w1.weight", or as recordings do,
/// "layers.1.mlp.up_proj#expert3". Empty for other names.
std::string TensorFinder::whole_of(const std::string& name) const {
  if (const auto named = runtime::named_expert(name)) return has(std::string(named->tensor)) ? std::string(named->tensor) : "";
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::size_t end = name.find('.', dot + 1);
    const std::string number = name.substr(dot + 1, end - dot - 1);
    if (end == std::string::npos || number.empty() || number.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stack = name.substr(0, dot) + name.substr(end);
    if (has(stack)) return stack;
  }
  return "";
}

/// Describes where a value that is not in the current action's program is produced, or suggests the nearest name.
std::string TensorFinder::elsewhere(const std::string& name) const {
  for (int rank = 0; rank < stepper_.plan().ranks(); ++rank) {
    for (const auto& stage : stepper_.rank(runtime::RankId(rank)).compute().stages()) {
      for (const auto& value : stage->programs().values) {
        if (!is_name(value.name, name)) continue;
        const auto where = fmt::format(": it belongs to stage {} on rank {}", stage->stage(), rank);
        if (standing_.inside) return fmt::format("{}, expected a stop at one of that stage's actions", where);
        if (rank != standing_.rank.value)
          return fmt::format("{}, and rank {} is selected: enter `rank {}` first", where, standing_.rank, rank);
        return standing_.action
                   ? fmt::format("{}, and the rank ran {} last, expected an action of that stage", where, standing_.action->action)
                   : fmt::format("{}, which has run no action yet: enter `next` first", where);
      }
    }
  }
  if (const auto whole = whole_of(name); !whole.empty()) return fmt::format(": it is a part of {}", whole);
  const auto meant = did_you_mean(name, names());
  return meant.empty() ? "; `ops` lists the values of an action, `stats` the weights" : meant;
}

/// Throws Error(usage) with the names of the parts if replicas have divided the tensor.
void TensorFinder::check_parts(const std::string& name) const {
  std::vector<std::string> parts;
  for (const auto& entry : entries_)
    if (entry.named.name.starts_with(name + "[")) parts.push_back(entry.named.name);
  MILLRACE_CHECK(parts.empty(), ExitCode::usage, debugger, "{} is divided between ranks (mesh.shard), expected a part: {}", name,
                 fmt::join(parts, ", "));
}

bool TensorFinder::has(const std::string& name) const {
  return std::ranges::any_of(entries_, [&](const Entry& entry) { return is_name(entry.named.name, name); });
}

NamedTensor TensorFinder::find(const std::string& name) const {
  // A weight's name is also a suffix of the names of its gradient and optimizer states; those two are found only by their full
  // names.
  const auto ends_in_name = [&](const Entry& entry) {
    const bool derived = entry.named.where.starts_with("gradient") || entry.named.where.starts_with("state");
    return !derived && entry.named.name.ends_with("." + name);
  };
  const Entry* found = nullptr;
  int ends = 0;
  for (const auto& entry : entries_) {
    if (entry.named.name == name) {
      found = &entry;
      ends = 1;
      break;
    }
    if (!ends_in_name(entry) || (found != nullptr && found->named.name == entry.named.name)) continue;  // another rank's experts
    found = &entry;
    ++ends;
  }
  if (ends > 1) {
    std::vector<std::string> all;
    for (const auto& entry : entries_)
      if (ends_in_name(entry)) all.push_back(entry.named.name);
    if (all.size() > 6) {
      all.resize(6);
      all.emplace_back("…");
    }
    fail(ExitCode::usage, debugger, "{} is the end of {} names, expected one of: {}", name, ends, fmt::join(all, ", "));
  }
  if (found == nullptr) check_parts(name);
  MILLRACE_CHECK(found != nullptr, ExitCode::usage, debugger, "no tensor {} here{}", name, elsewhere(name));
  MILLRACE_CHECK(found->missing.empty(), ExitCode::usage, debugger, "{} {}", found->named.name, found->missing);
  return found->named;
}

}  // namespace millrace::actors

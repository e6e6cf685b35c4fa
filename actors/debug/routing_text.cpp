#include "actors/debug/routing_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "actors/debug/component.hpp"
#include "actors/debug/tensor_finder.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/engine/expert_load.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::actors {
namespace {

constexpr std::size_t experts_of_a_line = 16;

/// The operation by which a router chooses: the one named `route` in the observation's scope. nullptr if there is none.
const runtime::Operation* route_of(const runtime::ProgramSet& programs, const runtime::StageObservation& load) {
  for (const auto& operation : programs.program(runtime::ProgramKind::forward))
    if (operation.rule->name() == "route" && operation.name.starts_with(load.scope + ".")) return &operation;
  return nullptr;
}

/// Whether the current action is this stage's forward, and has not come as far as the value.
bool is_to_come(const runtime::ProgramSet& programs, const DebugCursor& standing, runtime::ValueId value) {
  if (standing.action->pass != runtime::Pass::forward) return false;
  const auto& program = programs.program(runtime::ProgramKind::forward);
  const auto writes = std::ranges::find_if(
      program, [&](const runtime::Operation& operation) { return std::ranges::find(operation.outputs, value) != operation.outputs.end(); });
  return static_cast<std::size_t>(writes - program.begin()) >= operations_run(programs, standing);
}

std::string counts_text(const runtime::ExpertLoad& load) {
  std::string text;
  for (std::size_t first = 0; first < load.counts.size(); first += experts_of_a_line) {
    const std::size_t end = std::min(load.counts.size(), first + experts_of_a_line);
    std::string experts, tokens;
    for (std::size_t expert = first; expert < end; ++expert) {
      experts += fmt::format("{:>7}", expert);
      tokens += fmt::format("{:>7}", load.counts[expert]);
    }
    text += fmt::format("  expert {}\n  tokens {}\n", experts, tokens);
  }
  return text + fmt::format("  entropy {:.4f} nats, {:.1f}% of an even choice; hottest expert {} with {:.1f}%\n", load.entropy(),
                            100 * load.evenness(), load.hottest(), 100 * load.hottest_share());
}

std::string token_text(const TensorFinder& finder, const runtime::ProgramSet& programs, const runtime::Operation& route,
                       std::int64_t token) {
  const auto weights = finder.find(programs.value(route.outputs[0]).name).tensor;
  const auto experts = finder.find(programs.value(route.outputs[1]).name).tensor;
  std::string text = fmt::format("  token {}:", token);
  const std::int64_t each = experts.shape[1];
  for (std::int64_t k = token * each; k < (token + 1) * each; ++k)
    text +=
        fmt::format("{} expert {} with weight {:.6g}", k == token * each ? "" : ",", experts.as<std::int32_t>()[k], weights.as<float>()[k]);
  return text + "\n";
}

}  // namespace

std::string routing_text(const Stepper& stepper, const DebugCursor& standing, std::int64_t token) {
  MILLRACE_CHECK(standing.action.has_value(), ExitCode::usage, debugger, "rank {} has run no action yet, expected one: step",
                 standing.rank);
  const auto& action = *standing.action;
  const auto& stage = stepper.rank(standing.rank).compute().stage(action.action.stage);
  const auto& programs = stage.programs();
  const std::int64_t tokens = programs.tokens;
  MILLRACE_CHECK(token < tokens, ExitCode::usage, debugger, "token {}, expected 0 to {}", token, tokens - 1);
  const TensorFinder finder(stepper, standing);
  std::string text;
  for (std::size_t place = 0; place < stage.observations().size(); ++place) {
    const auto& observation = stage.observations()[place];
    if (observation.name != runtime::expert_load_name) continue;
    text += fmt::format("{}, {} on rank {}\n", observation.scope, action.action, standing.rank);
    if (is_to_come(programs, standing, observation.value)) {
      text += fmt::format("  {} has not run yet in {}\n", programs.value(observation.value).name, action.action);
      continue;
    }
    runtime::Observation sums{observation.name, observation.layer, observation.scope, {}};
    sums.values.resize(static_cast<std::size_t>(programs.value(observation.value).type.shape.elements()));
    stage.add_observed(place, action.slots.result, sums.values);
    text += counts_text(runtime::expert_loads({sums}).front());
    const runtime::Operation* const route = route_of(programs, observation);
    if (route == nullptr) continue;
    try {
      text += token_text(finder, programs, *route, token);
    } catch (const Error& error) {
      text += fmt::format("  token {}: {}\n", token, without_component(error.what()));
    }
  }
  MILLRACE_CHECK(!text.empty(), ExitCode::usage, debugger, "stage {} has no experts, expected an action of a stage that has some",
                 action.action.stage);
  return text;
}

}  // namespace millrace::actors

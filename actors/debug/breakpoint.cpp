#include "actors/debug/breakpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "actors/debug/component.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "kernels/statistics.hpp"
#include "runtime/engine/nan_search.hpp"
#include "runtime/engine/trace.hpp"

namespace millrace::actors {
namespace {

using runtime::ActionKind;

const std::vector<std::string> condition_functions{"norm", "min", "max", "mean", "nonfinite"};

std::int64_t whole(const std::string& word, const std::string& of) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  MILLRACE_CHECK(error == std::errc() && end == word.data() + word.size() && number >= 0, ExitCode::usage, debugger,
                 "{} \"{}\", expected a whole number", of, word);
  return number;
}

/// Parses a condition such as "norm(layer 5) > 1e3" from one string.
Condition parse_condition(const std::string& text) {
  const auto open = text.find('('), close = text.find(')'), compare = text.find_first_of("<>", close == std::string::npos ? 0 : close);
  MILLRACE_CHECK(open != std::string::npos && close != std::string::npos && open < close && compare != std::string::npos, ExitCode::usage,
                 debugger, "when {}, expected FUNCTION(layer N) > NUMBER or FUNCTION(NAME) > NUMBER", text);
  const auto trim = [](std::string part) {
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    part.erase(part.find_last_not_of(' ') + 1);
    return part;
  };
  Condition condition;
  condition.function = trim(text.substr(0, open));
  MILLRACE_CHECK(std::find(condition_functions.begin(), condition_functions.end(), condition.function) != condition_functions.end(),
                 ExitCode::usage, debugger, "when {}(…), expected {}{}", condition.function, fmt::join(condition_functions, ", "),
                 did_you_mean(condition.function, condition_functions));
  condition.subject = trim(text.substr(open + 1, close - open - 1));
  if (condition.subject.starts_with("layer ")) {
    condition.layer = static_cast<int>(whole(trim(condition.subject.substr(6)), "layer"));
    condition.subject.clear();
  }
  condition.compare = text[compare];
  const auto bound = trim(text.substr(compare + 1));
  char* end = nullptr;
  condition.bound = std::strtod(bound.c_str(), &end);
  MILLRACE_CHECK(!bound.empty() && *end == 0, ExitCode::usage, debugger, "when … {} \"{}\", expected a number", condition.compare, bound);
  return condition;
}

double value_of(const std::string& function, const kernels::Statistics& found) {
  if (function == "min") return found.minimum;
  if (function == "max") return found.maximum;
  if (function == "mean") return found.mean;
  if (function == "nonfinite") return static_cast<double>(found.not_finite);
  return found.norm;
}

}  // namespace

bool is_name(const std::string& full, const std::string& asked) { return full == asked || full.ends_with("." + asked); }

Breakpoint Breakpoint::parse(const std::vector<std::string>& words) {
  const std::vector<std::string> known{"stage",   "microbatch",     "layer",           "op",       "step", "nan",
                                       "forward", "input_gradient", "weight_gradient", "backward", "when"};
  Breakpoint point;
  MILLRACE_CHECK(!words.empty(), ExitCode::usage, debugger, "break where? {}", fmt::join(known, ", "));
  for (std::size_t at = 0; at < words.size(); ++at) {
    const auto& word = words[at];
    const auto value = [&]() -> const std::string& {
      MILLRACE_CHECK(at + 1 < words.size(), ExitCode::usage, debugger, "break … {}, expected a value after it", word);
      return words[++at];
    };
    if (word == "stage") {
      point.stage = static_cast<int>(whole(value(), word));
    } else if (word == "microbatch") {
      point.microbatch = static_cast<int>(whole(value(), word));
    } else if (word == "layer") {
      point.layer = static_cast<int>(whole(value(), word));
    } else if (word == "step") {
      point.step = whole(value(), word);
    } else if (word == "op") {
      point.operation = value();
    } else if (word == "nan") {
      point.nan = true;
    } else if (word == "when") {
      std::string rest;
      while (++at < words.size()) rest += (rest.empty() ? "" : " ") + words[at];
      point.condition = parse_condition(rest);
    } else if (word == "forward") {
      point.kind = ActionKind::forward;
    } else if (word == "input_gradient") {
      point.kind = ActionKind::input_gradient;
    } else if (word == "weight_gradient") {
      point.kind = ActionKind::weight_gradient;
    } else if (word == "backward") {
      point.kind = ActionKind::backward;
    } else {
      fail(ExitCode::usage, debugger, "break … {}, expected {}{}", word, fmt::join(known, ", "), did_you_mean(word, known));
    }
  }
  return point;
}

std::string Breakpoint::text() const {
  std::vector<std::string> parts;
  if (step) parts.push_back(fmt::format("step {}", *step));
  if (stage) parts.push_back(fmt::format("stage {}", *stage));
  if (kind) parts.emplace_back(to_string(span_of(*kind)));
  if (microbatch) parts.push_back(fmt::format("microbatch {}", *microbatch));
  if (layer) parts.push_back(fmt::format("layer {}", *layer));
  if (!operation.empty()) parts.push_back("op " + operation);
  if (nan) parts.emplace_back("nan");
  if (condition)
    parts.push_back(fmt::format("when {}({}) {} {}", condition->function,
                                condition->layer >= 0 ? fmt::format("layer {}", condition->layer) : condition->subject, condition->compare,
                                condition->bound));
  return fmt::format("{}", fmt::join(parts, " "));
}

bool Breakpoint::matches(const runtime::Action& action, std::int64_t at_step) const {
  // If the backward is split, "backward" means its first half.
  const bool same_kind = !kind || *kind == action.kind || (*kind == ActionKind::backward && action.kind == ActionKind::input_gradient);
  return same_kind && (!stage || *stage == action.stage.value) && (!microbatch || *microbatch == action.microbatch.value) &&
         (!step || *step == at_step + 1);
}

bool Breakpoint::before(const runtime::OperationHook::Call& call) const {
  if (nan || condition) return false;
  if (!operation.empty()) return is_name(call.operation.name, operation);
  // Only the first operation of a layer counts.
  if (!layer || call.operation.layer != *layer) return false;
  return call.index == 0 || call.programs.program(call.kind)[call.index - 1].layer != *layer;
}

std::optional<std::string> Breakpoint::after(const runtime::OperationHook::Call& call) const {
  if (nan) {
    const auto found = runtime::find_not_finite(call);
    return found ? std::optional(found->text()) : std::nullopt;
  }
  if (!condition) return std::nullopt;
  const bool whole_operation =
      condition->layer >= 0 ? call.operation.layer == condition->layer : is_name(call.operation.name, condition->subject);
  for (std::size_t index = 0; index < call.outputs.size(); ++index) {
    const auto& name = call.programs.value(call.operation.outputs[index]).name;
    if (!whole_operation && !is_name(name, condition->subject)) continue;
    const double value = value_of(condition->function, kernels::statistics(call.outputs[index]));
    if (condition->compare == '>' ? value > condition->bound : value < condition->bound)
      return fmt::format("{}({}) is {:.6g}, {} {}", condition->function, name, value, condition->compare, condition->bound);
  }
  return std::nullopt;
}

}  // namespace millrace::actors

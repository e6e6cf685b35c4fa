#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/debug/debug_cursor.hpp"
#include "actors/messages/messages.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Whether `asked` is `full` or a suffix of it that begins after a dot.
[[nodiscard]] bool is_name(const std::string& full, const std::string& asked);

/// A condition such as norm(layer 5) > 1e3: stops after an operation whose result satisfies it.
struct Condition {
  std::string function;  // norm, min, max, mean, nonfinite
  std::string subject;   // name or suffix of an operation or value; empty: a layer
  int layer = -1;
  char compare = '>';  // or <
  double bound = 0;
};

/// A place to stop: before an action, before one of its operations, or after an operation with a certain result.
struct Breakpoint {
  std::optional<int> stage, microbatch, layer;
  std::optional<std::int64_t> step;  // counted from 1
  std::optional<runtime::ActionKind> kind;
  std::string operation;  // name or suffix
  bool nan = false;
  std::optional<Condition> condition;

  /// Parses "stage 2 backward microbatch 1 op NAME", "stage 2 layer 3", "step 4", "nan", "when norm(layer 5) > 1e3" and the like;
  /// parts may be omitted and given in any order. Throws Error(usage) with the offending word.
  [[nodiscard]] static Breakpoint parse(const std::vector<std::string>& words);
  [[nodiscard]] std::string text() const;

  /// Whether it stops before an action rather than within one.
  [[nodiscard]] bool of_actions() const { return !nan && !condition && operation.empty() && !layer; }
  [[nodiscard]] bool matches(const runtime::Action& action, std::int64_t step) const;
  [[nodiscard]] bool before(const runtime::OperationHook::Call& call) const;
  /// The reason to stop, or nothing.
  [[nodiscard]] std::optional<std::string> after(const runtime::OperationHook::Call& call) const;
};

}  // namespace millrace::actors

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/debug/debug_cursor.hpp"
#include "actors/messages/messages.hpp"
#include "runtime/ids.hpp"
#include "runtime/program/executor.hpp"

namespace millrace::actors {

/// Whether a person who says `asked` may mean what is called `full`: that, or its end behind a dot.
[[nodiscard]] bool is_name(const std::string& full, const std::string& asked);

/// norm(layer 5) > 1e3: stops after an operation whose result fulfils it.
struct Condition {
  std::string function;  // norm, min, max, mean, nonfinite
  std::string subject;   // an operation's or value's name, or its end; empty: a layer's
  int layer = -1;
  char compare = '>';  // or <
  double bound = 0;
};

/// Where to stop: before an action, before an operation of it, or after one that left something behind.
struct Breakpoint {
  std::optional<int> stage, microbatch, layer;
  std::optional<std::int64_t> step;  // from 1, as people count
  std::optional<runtime::ActionKind> kind;
  std::string operation;  // or its end
  bool nan = false;
  std::optional<Condition> condition;

  /// "stage 2 backward microbatch 1 op NAME", "stage 2 layer 3", "step 4", "nan", "when norm(layer 5) > 1e3" and what these leave out, in
  /// any order. Throws Error(usage) naming the word.
  [[nodiscard]] static Breakpoint parse(const std::vector<std::string>& words);
  [[nodiscard]] std::string text() const;

  /// Whether it stops before an action, and not within one.
  [[nodiscard]] bool of_actions() const { return !nan && !condition && operation.empty() && !layer; }
  [[nodiscard]] bool matches(const runtime::Action& action, std::int64_t step) const;
  [[nodiscard]] bool before(const runtime::OperationHook::Call& call) const;
  /// Why, or nothing.
  [[nodiscard]] std::optional<std::string> after(const runtime::OperationHook::Call& call) const;
};

}  // namespace millrace::actors

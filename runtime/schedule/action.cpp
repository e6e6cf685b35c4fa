#include "runtime/schedule/action.hpp"

#include <charconv>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

// Parses a decimal number at `position` and advances past it.
std::int32_t read_number(std::string_view text, std::size_t& position, const char* what) {
  const char* begin = text.data() + position;
  const char* end = text.data() + text.size();
  std::int32_t number = -1;
  const bool digit = begin != end && *begin >= '0' && *begin <= '9';
  const auto [stop, error] = std::from_chars(begin, end, number);
  MILLRACE_CHECK(digit && error == std::errc{}, ExitCode::config, schedule_component,
                 "action \"{}\", column {}: expected the {} as a decimal number (an action reads like 3I2: stage, F I W or B, microbatch)",
                 text, position + 1, what);
  position = static_cast<std::size_t>(stop - text.data());
  return number;
}

ActionKind read_kind(std::string_view text, std::size_t& position) {
  const char found = position < text.size() ? text[position] : ' ';
  for (const ActionKind kind : all_action_kinds) {
    if (letter_of(kind) == found) {
      ++position;
      return kind;
    }
  }
  fail(ExitCode::config, schedule_component, "action \"{}\", column {}: expected F, I, W or B after the stage", text, position + 1);
}

}  // namespace

char letter_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return 'F';
    case ActionKind::input_gradient:
      return 'I';
    case ActionKind::weight_gradient:
      return 'W';
    case ActionKind::backward:
      return 'B';
  }
  return '?';
}

std::string to_string(const Action& action) { return fmt::format("{}{}{}", action.stage, letter_of(action.kind), action.microbatch); }

Action parse_action(std::string_view text) {
  std::size_t position = 0;
  Action action;
  action.stage = StageId{read_number(text, position, "stage")};
  action.kind = read_kind(text, position);
  action.microbatch = MicrobatchId{read_number(text, position, "microbatch")};
  MILLRACE_CHECK(position == text.size(), ExitCode::config, schedule_component,
                 "action \"{}\", column {}: expected nothing after the microbatch, found \"{}\"", text, position + 1,
                 text.substr(position));
  return action;
}

}  // namespace millrace::runtime

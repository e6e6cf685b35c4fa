#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/ids.hpp"

namespace millrace::runtime {

/// The kinds of work that a rank does for one microbatch on one stage.
enum class ActionKind : std::uint8_t {
  forward,          // F
  input_gradient,   // I: gradient with respect to the stage's input
  weight_gradient,  // W: gradient with respect to the stage's weights, at any time after I
  backward,         // B: I and W in a single call
};
inline constexpr std::array all_action_kinds{ActionKind::forward, ActionKind::input_gradient, ActionKind::weight_gradient,
                                             ActionKind::backward};

/// One entry of a rank's list.
struct Action {
  StageId stage;
  ActionKind kind = ActionKind::forward;
  MicrobatchId microbatch;
  /// First half of an overlapped pair: this action and the next one, of another microbatch, are one block, such as the F and B of
  /// DualPipe. Their segments are woven if exchanges divide them; else the two run in order. A pair cannot overlap a further entry.
  bool overlaps_next = false;
  friend bool operator==(const Action&, const Action&) = default;
};

/// The letter of a kind: F, I, W or B.
[[nodiscard]] char letter_of(ActionKind kind);

/// True for I and B, which consume the gradient of the next stage and produce the gradient for the previous one.
[[nodiscard]] constexpr bool makes_gradient(ActionKind kind) { return kind == ActionKind::input_gradient || kind == ActionKind::backward; }
/// True for W and B, the last use of everything that a microbatch holds on its stage.
[[nodiscard]] constexpr bool ends_microbatch(ActionKind kind) {
  return kind == ActionKind::weight_gradient || kind == ActionKind::backward;
}

/// "<stage><letter><microbatch>", for example 3I2, as in a cell of PyTorch's pipelining tables. Does not show pairs (cell.hpp
/// does).
[[nodiscard]] std::string to_string(const Action& action);

/// The inverse of to_string(). Error(config) with the text, the column and what was expected there.
[[nodiscard]] Action parse_action(std::string_view text);

}  // namespace millrace::runtime

template <>
struct fmt::formatter<millrace::runtime::Action> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const millrace::runtime::Action& action, Context& context) const {
    return fmt::formatter<std::string>::format(millrace::runtime::to_string(action), context);
  }
};

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::layers {

/// The contents of one virtual stage: decoder layers [first_layer, first_layer + layer_count), before them the embedding, after them the
/// head.
struct StageLayout {
  bool embedding = false;
  int first_layer = 0;
  int layer_count = 0;
  bool head = false;

  [[nodiscard]] bool empty() const noexcept { return !embedding && !head && layer_count == 0; }
  bool operator==(const StageLayout&) const = default;
};

/// Parses a layout string such as "E t*3 | t*4 | t*2 H": stages are separated by '|', and each contains `E` (embedding), `t` or
/// `t*3` (decoder layers) and `H` (final norm and head). A stage without any of these is empty and passes its input on. The
/// embedding must be first and the head last, each once, and the layers must add up to `layers`. `stages` is the expected number,
/// ranks · chunks. Throws Error(config) with what was found and what was expected.
[[nodiscard]] std::vector<StageLayout> parse_layout(std::string_view text, std::int64_t layers, std::int64_t stages);

/// The layout string of the stages; parse_layout reads it back.
[[nodiscard]] std::string print_layout(const std::vector<StageLayout>& stages);

/// Distributes the layers evenly, for 1 <= stages <= layers + 2. If they do not divide evenly, earlier stages get one layer more,
/// but never the last stage, which also has the head. With layers + 1 stages the head is a stage of its own, with layers + 2 also
/// the embedding. Throws Error(config) for any other number of stages.
[[nodiscard]] std::vector<StageLayout> uniform_layout(std::int64_t layers, std::int64_t stages);

}  // namespace millrace::layers

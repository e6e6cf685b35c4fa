#include "layers/partition.hpp"

#include <fmt/format.h>

#include <charconv>

#include "kernels/base/check.hpp"

namespace millrace::layers {
namespace {

constexpr const char* layout_component = "layers.partition";
constexpr std::int64_t max_repeated_layers = 1'000'000;  // in one `t*N`: a larger number is a typing mistake

std::vector<std::string_view> split(std::string_view text, std::string_view separators, bool keep_empty) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (keep_empty || end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Layers that `t` or `t*N` stands for.
std::int64_t layers_of(std::string_view word, std::string_view text) {
  if (word == "t") return 1;
  std::int64_t count = 0;
  const std::string_view digits = word.size() > 2 ? word.substr(2) : std::string_view{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  MILLRACE_CHECK(word.substr(0, 2) == "t*" && !digits.empty() && error == std::errc{} && end == digits.data() + digits.size() &&
                     count >= 1 && count <= max_repeated_layers,
                 ExitCode::config, layout_component, "pipeline.layout \"{}\": found \"{}\", expected E, t, t*N with N >= 1, or H", text,
                 word);
  return count;
}

StageLayout parse_stage(std::string_view stage_text, std::string_view text, std::int64_t& next_layer) {
  StageLayout stage;
  stage.first_layer = static_cast<int>(next_layer);
  for (const std::string_view word : split(stage_text, " \t\n\r", false)) {
    MILLRACE_CHECK(!stage.head, ExitCode::config, layout_component,
                   "pipeline.layout \"{}\": found \"{}\" after H in the same stage, expected H last", text, word);
    if (word == "E") {
      MILLRACE_CHECK(!stage.embedding && stage.layer_count == 0, ExitCode::config, layout_component,
                     "pipeline.layout \"{}\": found E after other layers, expected it once, at the beginning", text);
      stage.embedding = true;
    } else if (word == "H") {
      stage.head = true;
    } else {
      const std::int64_t count = layers_of(word, text);
      next_layer += count;
      MILLRACE_CHECK(next_layer <= max_repeated_layers, ExitCode::config, layout_component, "pipeline.layout \"{}\": more than {} layers",
                     text, max_repeated_layers);
      stage.layer_count += static_cast<int>(count);
    }
  }
  return stage;
}

void check_ends(const StageLayout& stage, std::size_t index, std::size_t stages, std::string_view text) {
  const auto check = [&](bool found, bool expected, std::string_view word, std::string_view part, std::string_view place) {
    MILLRACE_CHECK(found == expected, ExitCode::config, layout_component,
                   "pipeline.layout \"{}\": stage {} has {} {}, expected the {} in the {} stage only", text, index, found ? "an" : "no",
                   word, part, place);
  };
  check(stage.embedding, index == 0, "E", "embedding", "first");
  check(stage.head, index + 1 == stages, "H", "head", "last");
}

}  // namespace

std::vector<StageLayout> parse_layout(std::string_view text, std::int64_t layers, std::int64_t stages) {
  std::vector<StageLayout> result;
  std::int64_t next_layer = 0;
  for (const std::string_view part : split(text, "|", true)) result.push_back(parse_stage(part, text, next_layer));
  const auto found = static_cast<std::int64_t>(result.size());
  MILLRACE_CHECK(found == stages, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\" has {} stages, expected {} (pipeline.ranks * pipeline.chunks)", text, found, stages);
  for (std::size_t index = 0; index < result.size(); ++index) check_ends(result[index], index, result.size(), text);
  MILLRACE_CHECK(next_layer == layers, ExitCode::config, layout_component, "pipeline.layout \"{}\" has {} decoder layers, the model has {}",
                 text, next_layer, layers);
  return result;
}

std::string print_layout(const std::vector<StageLayout>& stages) {
  std::string text;
  for (const StageLayout& stage : stages) {
    std::string words;
    const auto word = [&](const std::string& next) { words += (words.empty() ? "" : " ") + next; };
    if (stage.embedding) word("E");
    if (stage.layer_count == 1) word("t");
    if (stage.layer_count > 1) word(fmt::format("t*{}", stage.layer_count));
    if (stage.head) word("H");
    if (&stage != &stages.front()) text += words.empty() ? " |" : " | ";
    text += words;
  }
  return text;
}

std::vector<StageLayout> uniform_layout(std::int64_t layers, std::int64_t stages) {
  MILLRACE_CHECK(stages >= 1 && stages <= layers + 2, ExitCode::config, layout_component,
                 "found {} stages (pipeline.ranks * pipeline.chunks) for {} decoder layers, expected 1 to {} (layers + 2)", stages, layers,
                 layers + 2);
  std::vector<StageLayout> result(static_cast<std::size_t>(stages));
  const bool head_alone = stages > layers && stages > 1;
  const bool embedding_alone = stages > layers + 1;
  const std::int64_t first = embedding_alone ? 1 : 0;
  const std::int64_t holders = stages - first - (head_alone ? 1 : 0);  // stages with decoder layers
  int next_layer = 0;
  for (std::int64_t index = 0; index < stages; ++index) {
    StageLayout& stage = result[static_cast<std::size_t>(index)];
    stage.embedding = index == 0;
    stage.head = index + 1 == stages;
    stage.first_layer = next_layer;
    const std::int64_t holder = index - first;
    if (holder >= 0 && holder < holders) stage.layer_count = static_cast<int>(layers / holders + (holder < layers % holders ? 1 : 0));
    next_layer += stage.layer_count;
  }
  return result;
}

}  // namespace millrace::layers

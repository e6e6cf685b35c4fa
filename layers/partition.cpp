#include "layers/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// The number of layers that `t` or `t*N` stands for, or of modules for `M` and `M*N`.
std::int64_t count_of(std::string_view word, std::string_view text) {
  if (word == "t" || word == "M") return 1;
  std::int64_t count = 0;
  const std::string_view digits = word.size() > 2 ? word.substr(2) : std::string_view{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  MILLRACE_CHECK((word.substr(0, 2) == "t*" || word.substr(0, 2) == "M*") && !digits.empty() && error == std::errc{} &&
                     end == digits.data() + digits.size() && count >= 1 && count <= max_repeated_layers,
                 ExitCode::config, layout_component,
                 "pipeline.layout \"{}\": found \"{}\", expected E, t, t*N or M*N with N >= 1, a, f, M, or H", text, word);
  return count;
}

/// Layers and modules of the stages so far. `divided`: of the last layer only the attention was there.
struct Progress {
  std::int64_t layers = 0, modules = 0;
  bool divided = false;
};

/// A layer's attention, or its MLP or experts.
void parse_half(std::string_view word, std::string_view text, StageLayout& stage, Progress& progress) {
  const bool attention = word == "a";
  MILLRACE_CHECK(attention != progress.divided, ExitCode::config, layout_component, "pipeline.layout \"{}\": found \"{}\" {}, expected {}",
                 text, word, attention ? "after an a without its f" : "without an a before it",
                 attention ? "f, the MLP or experts of the same layer" : "a, the attention of the layer");
  MILLRACE_CHECK(progress.modules == 0, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\": found \"{}\" after M, expected modules of multi-token prediction after all layers", text, word);
  progress.divided = attention;
  if (attention) {
    ++progress.layers;
    ++stage.layer_count;
    stage.ends_with_attention = true;
  } else if (stage.ends_with_attention) {
    stage.ends_with_attention = false;  // both halves: a whole layer
  } else {
    --stage.first_layer;
    ++stage.layer_count;
    stage.starts_with_ffn = true;
  }
}

StageLayout parse_stage(std::string_view stage_text, std::string_view text, Progress& progress) {
  StageLayout stage;
  stage.first_layer = static_cast<int>(progress.layers + progress.modules);
  for (const std::string_view word : split(stage_text, " \t\n\r", false)) {
    MILLRACE_CHECK(!stage.head, ExitCode::config, layout_component,
                   "pipeline.layout \"{}\": found \"{}\" after H in the same stage, expected H last", text, word);
    if (word == "E") {
      MILLRACE_CHECK(!stage.embedding && stage.layer_count == 0 && progress.modules == 0, ExitCode::config, layout_component,
                     "pipeline.layout \"{}\": found E after other layers, expected it once, at the beginning", text);
      stage.embedding = true;
    } else if (word == "a" || word == "f") {
      parse_half(word, text, stage, progress);
    } else if (progress.divided) {
      fail(ExitCode::config, layout_component,
           "pipeline.layout \"{}\": found \"{}\" after an a without its f, expected f, the MLP or experts of the same layer", text, word);
    } else if (word == "H") {
      stage.head = true;
    } else {
      const std::int64_t count = count_of(word, text);
      const bool module = word.front() == 'M';
      MILLRACE_CHECK(module || progress.modules == 0, ExitCode::config, layout_component,
                     "pipeline.layout \"{}\": found \"{}\" after M, expected modules of multi-token prediction after all layers", text,
                     word);
      (module ? progress.modules : progress.layers) += count;
      MILLRACE_CHECK(progress.layers + progress.modules <= max_repeated_layers, ExitCode::config, layout_component,
                     "pipeline.layout \"{}\": more than {} layers", text, max_repeated_layers);
      (module ? stage.modules : stage.layer_count) += static_cast<int>(count);
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

std::vector<StageLayout> parse_layout(std::string_view text, ChainLength chain, std::int64_t stages) {
  std::vector<StageLayout> result;
  Progress progress;
  for (const std::string_view part : split(text, "|", true)) result.push_back(parse_stage(part, text, progress));
  const auto found = static_cast<std::int64_t>(result.size());
  MILLRACE_CHECK(found == stages, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\" has {} stages, expected {} (pipeline.ranks * pipeline.chunks)", text, found, stages);
  for (std::size_t index = 0; index < result.size(); ++index) check_ends(result[index], index, result.size(), text);
  MILLRACE_CHECK(!progress.divided, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\" ends after an a without its f, expected f, the MLP or experts of the same layer", text);
  MILLRACE_CHECK(progress.layers == chain.layers, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\" has {} decoder layers, the model has {}", text, progress.layers, chain.layers);
  MILLRACE_CHECK(progress.modules == chain.modules, ExitCode::config, layout_component,
                 "pipeline.layout \"{}\" has {} modules of multi-token prediction (M), the model has {} (model.mtp_layers)", text,
                 progress.modules, chain.modules);
  return result;
}

std::string print_layout(const std::vector<StageLayout>& stages) {
  std::string text;
  for (const StageLayout& stage : stages) {
    std::string words;
    const auto word = [&](const std::string& next) { words += (words.empty() ? "" : " ") + next; };
    const auto several = [&](const char* letter, int count) {
      if (count == 1) word(letter);
      if (count > 1) word(fmt::format("{}*{}", letter, count));
    };
    if (stage.embedding) word("E");
    if (stage.starts_with_ffn) word("f");
    several("t", stage.layer_count - (stage.starts_with_ffn ? 1 : 0) - (stage.ends_with_attention ? 1 : 0));
    if (stage.ends_with_attention) word("a");
    several("M", stage.modules);
    if (stage.head) word("H");
    if (&stage != &stages.front()) text += words.empty() ? " |" : " | ";
    text += words;
  }
  return text;
}

std::vector<StageLayout> uniform_layout(ChainLength chain, std::int64_t stages) {
  const std::int64_t layers = chain.layers;
  MILLRACE_CHECK(stages >= 1 && stages <= most_stages(chain), ExitCode::config, layout_component,
                 "found {} stages (pipeline.ranks * pipeline.chunks) for {} decoder layers{}, expected 1 to {} (layers {}+ 2)", stages,
                 layers, chain.modules > 0 ? fmt::format(" and {} modules of multi-token prediction", chain.modules) : "",
                 most_stages(chain), chain.modules > 0 ? "+ modules " : "");
  const std::int64_t of_modules = std::max<std::int64_t>(stages - layers - 2, 0);  // stages with modules alone
  const std::int64_t others = stages - of_modules;
  const std::int64_t first = others > layers + 1 ? 1 : 0;                                 // the embedding is alone
  const std::int64_t holders = others - first - (others > layers && others > 1 ? 1 : 0);  // stages with decoder layers
  std::vector<int> counts(static_cast<std::size_t>(stages));
  const auto divide = [&](std::int64_t items, std::int64_t from, std::int64_t parts) {
    for (std::int64_t part = 0; part < parts; ++part)
      counts[static_cast<std::size_t>(from + part)] += static_cast<int>(items / parts + (part < items % parts ? 1 : 0));
  };
  divide(layers, first, holders);
  if (of_modules > 0)
    divide(chain.modules, first + holders, of_modules);
  else
    counts.back() += static_cast<int>(chain.modules);
  return layout_of_counts(chain, counts);
}

std::vector<StageLayout> layout_of_counts(ChainLength chain, const std::vector<int>& counts) {
  std::vector<StageLayout> stages(counts.size());
  const auto layers = static_cast<int>(chain.layers);
  int next = 0;
  for (std::size_t index = 0; index < counts.size(); ++index) {
    StageLayout& stage = stages[index];
    stage.embedding = index == 0;
    stage.head = index + 1 == counts.size();
    stage.first_layer = next;
    stage.layer_count = std::clamp(layers - next, 0, counts[index]);
    stage.modules = counts[index] - stage.layer_count;
    next = stage.end();
  }
  return stages;
}

}  // namespace millrace::layers

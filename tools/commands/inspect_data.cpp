// millrace data inspect, of a run's data or of a folder.
#include <fmt/format.h>

#include <limits>

#include "kernels/base/count.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/data/token_file.hpp"
#include "tools/commands/tokenize_data.hpp"

namespace millrace::tools {
namespace {

/// A line per file: its tokens, its format and its path.
void print_files(const std::vector<runtime::DataFile>& files, bool text, std::int64_t vocabulary) {
  for (const auto& file : files) {
    if (text) {
      fmt::print("  {:>15} tokens  {}\n", file.size + (file.size > 0 ? 1 : 0), file.path.string());
      continue;
    }
    const runtime::TokenFile tokens(file.path, vocabulary);
    fmt::print("  {:>15} tokens  {} ({})\n", tokens.size(), file.path.string(), runtime::to_string(tokens.format()));
  }
}

}  // namespace

int inspect_data(const runtime::DataConfig& data, std::int64_t vocabulary) {
  const bool text = !data.text.empty();
  if (vocabulary == 0)
    vocabulary = text ? std::int64_t{runtime::ByteTokenizer::vocabulary} : std::int64_t{std::numeric_limits<std::int32_t>::max()};
  const auto files = runtime::list_run_files(data);
  const auto opened = runtime::open_dataset(data, vocabulary);
  if (text) fmt::print("format    text, whose bytes are the tokens; each file ends with one more\n");
  fmt::print("data      {} in {} for training\n", counted(opened.train_tokens(), "token"), counted(opened.train_files, "file"));
  std::vector<double> weights;
  for (const auto& source : files.sources) weights.push_back(source.weight);
  const runtime::Blend blend(weights);
  for (std::size_t i = 0; i < files.sources.size(); ++i) {
    const auto& source = files.sources[i];
    if (files.sources.size() > 1)
      fmt::print("source    {} | {:.4g} % of the samples | {} in {} for training\n", source.name, 100 * blend.share(i),
                 counted(opened.sources[i].stream->size(), "token"), counted(opened.sources[i].files, "file"));
    print_files(source.files, text, vocabulary);
  }
  fmt::print("held out  {}\n", opened.held_out_text);
  print_files(files.validation, text, vocabulary);
  return 0;
}

}  // namespace millrace::tools

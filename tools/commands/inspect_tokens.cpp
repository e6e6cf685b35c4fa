#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "actors/telemetry/log_line.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/megatron_index.hpp"
#include "runtime/data/token_file.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/tokenize_data.hpp"

namespace millrace::tools {
namespace {

/// Removes characters that a terminal would interpret as commands.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '\n' || byte == '\t' || (value >= 0x20 && value != 0x7f)) {
      shown += byte;
    } else {
      shown += fmt::format("\\x{:02x}", value);
    }
  }
  return shown;
}

/// A file whose ids the tokenizer has; without a tokenizer any file.
runtime::TokenFile open_tokens(const std::string& path, const runtime::Tokenizer* tokenizer, const std::string& tokenizer_path) {
  runtime::TokenFile file(path, std::numeric_limits<std::int32_t>::max());
  constexpr std::int64_t at_once = 1 << 16;
  std::vector<std::int32_t> ids;
  for (std::int64_t first = 0; tokenizer != nullptr && first < file.size(); first += at_once) {
    ids.resize(static_cast<std::size_t>(std::min(at_once, file.size() - first)));
    file.read(first, ids);
    const auto found = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= tokenizer->vocabulary(); });
    MILLRACE_CHECK(found == ids.end(), ExitCode::data, "millrace data",
                   "{}: token {} is {}, --tokenizer {} has {} ids: expected the tokenizer that made the file", path,
                   first + (found - ids.begin()), *found, tokenizer_path, tokenizer->vocabulary());
  }
  return file;
}

}  // namespace

int inspect_tokens(const std::string& path, const std::string& tokenizer_path, std::int64_t count) {
  std::unique_ptr<runtime::Tokenizer> tokenizer;
  if (!tokenizer_path.empty()) tokenizer = runtime::open_tokenizer(tokenizer_path);
  const bool prefix = runtime::kind_of(path) == runtime::PathKind::missing && !runtime::megatron_index_beside(path + ".bin").empty();
  const auto file = open_tokens(prefix ? path + ".bin" : path, tokenizer.get(), tokenizer_path);
  fmt::print("format     {}\n", runtime::to_string(file.format()));
  fmt::print("tokens     {}\n", file.size());
  if (const auto* index = file.index()) {
    fmt::print("width      {} bits per token\n", 8 * index->width());
    fmt::print("documents  {} ({})\n", index->documents(), counted(index->sequences(), "sequence"));
  } else if (tokenizer && tokenizer->end_of_document()) {
    std::int64_t documents = 0;
    const std::int32_t end = *tokenizer->end_of_document();
    for (std::int64_t at = file.find(end, 0, file.size()); at < file.size(); at = file.find(end, at + 1, file.size())) ++documents;
    fmt::print("documents  {} ends of documents (token {})\n", documents, end);
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(count, file.size())));
  file.read(0, ids);
  fmt::print("first ids  {}\n", fmt::join(ids, " "));
  if (tokenizer) fmt::print("text       {}\n", printable(tokenizer->decode(ids)));
  return 0;
}

}  // namespace millrace::tools

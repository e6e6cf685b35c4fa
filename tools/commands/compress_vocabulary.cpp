#include "runtime/data/tokenizers/compress_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "tools/commands/tokenize_data.hpp"

namespace millrace::tools {
namespace {

constexpr std::size_t examples_shown = 5;
constexpr std::size_t tokens_shown = 8;

/// A token's text in quotes, without characters that a terminal would interpret as commands.
std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  for (const char byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    else
      shown += byte;
  }
  return shown + "\"";
}

/// The ids that most tokens share, with these tokens.
void print_examples(const runtime::TokenCompression& compression, const runtime::Tokenizer& tokenizer) {
  std::vector<std::vector<std::int32_t>> tokens(static_cast<std::size_t>(compression.vocabulary));
  for (std::size_t token = 0; token < compression.ids.size(); ++token)
    tokens[static_cast<std::size_t>(compression.ids[token])].push_back(static_cast<std::int32_t>(token));
  std::vector<std::size_t> order(tokens.size());
  for (std::size_t id = 0; id < order.size(); ++id) order[id] = id;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return tokens[a].size() > tokens[b].size(); });
  for (std::size_t i = 0; i < std::min(examples_shown, order.size()); ++i) {
    const auto& together = tokens[order[i]];
    if (together.size() < 2) return;
    std::string texts;
    for (std::size_t k = 0; k < std::min(tokens_shown, together.size()); ++k)
      texts += " " + in_quotes(tokenizer.spelling(together[k]).text);
    fmt::print("{:<10} id {} for {} tokens:{}{}\n", i == 0 ? "together" : "", order[i], together.size(), texts,
               together.size() > tokens_shown ? " …" : "");
  }
}

}  // namespace

int compress_vocabulary(const std::string& tokenizer, const std::string& out) {
  MILLRACE_CHECK(out.empty() || out.ends_with(".safetensors"), ExitCode::usage, "millrace data",
                 "compress --out {}, expected a name that ends in .safetensors", out);
  const runtime::TokenCompression compression = runtime::compress_vocabulary(tokenizer);
  fmt::print("tokens     {}\n", compression.ids.size());
  fmt::print("model.engram_compressed_vocab_size = {}\n", compression.vocabulary);
  fmt::print("model.engram_compressed_pad_id = {}\n", compression.padding);
  print_examples(compression, *runtime::open_tokenizer(tokenizer));
  if (out.empty()) return 0;
  runtime::write_token_compression(out, compression);
  fmt::print("written    {}\n", out);
  return 0;
}

}  // namespace millrace::tools

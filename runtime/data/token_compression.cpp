#include "runtime/data/token_compression.hpp"

#include <charconv>
#include <limits>

#include "kernels/base/check.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* compression_component = "data.compression";
constexpr const char* lookup_table = "lookup_table";
constexpr const char* vocabulary_entry = "compressed_vocab_size";
constexpr const char* padding_entry = "compressed_pad_id";
constexpr std::int64_t max_table_tokens = std::int64_t{1} << 28;

/// The integer of a metadata entry, from `least` to `most`.
std::int64_t metadata_integer(const SafetensorsFile& file, const char* name, std::int64_t least, std::int64_t most) {
  const auto entry = file.metadata().find(name);
  const std::string text = entry == file.metadata().end() ? "" : entry->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  MILLRACE_CHECK(!text.empty() && error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most,
                 ExitCode::data, compression_component, "{}: the metadata {} is {}, expected an integer from {} to {}", file.path(), name,
                 text.empty() ? "missing" : "\"" + text + "\"", least, most);
  return value;
}

}  // namespace

void TokenCompression::compress(std::span<const std::int32_t> tokens, std::span<std::int32_t> compressed) const {
  MILLRACE_CHECK(tokens.size() == compressed.size(), ExitCode::internal, compression_component,
                 "{} tokens and {} compressed ids, expected as many", tokens.size(), compressed.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int32_t token = tokens[t];
    MILLRACE_CHECK(token < static_cast<std::int64_t>(ids.size()), ExitCode::data, compression_component,
                   "token {} has no compressed id, expected one of the {} tokens of the vocabulary that was compressed; is it this model's "
                   "tokenizer?",
                   token, ids.size());
    compressed[t] = token < 0 ? token : ids[static_cast<std::size_t>(token)];
  }
}

TokenCompression read_token_compression(const std::string& path) {
  const SafetensorsFile file(path, ExitCode::data);
  const FileTensor* table = file.find(lookup_table);
  MILLRACE_CHECK(table != nullptr && table->dtype == FileDType::i32 && table->shape.size() == 1 && table->shape[0] >= 1 &&
                     table->shape[0] <= max_table_tokens,
                 ExitCode::data, compression_component, "{}: {}, expected a tensor {} of I32 with one axis", path,
                 table == nullptr ? "no tensor " + std::string(lookup_table)
                                  : fmt::format("{} is {} {}", lookup_table, to_string(table->dtype), shape_text(table->shape)),
                 lookup_table);
  TokenCompression compression;
  compression.vocabulary = metadata_integer(file, vocabulary_entry, 1, std::numeric_limits<std::int32_t>::max());
  compression.padding = static_cast<std::int32_t>(metadata_integer(file, padding_entry, 0, compression.vocabulary - 1));
  compression.ids.resize(static_cast<std::size_t>(table->shape[0]));
  file.read_bytes(*table, 0, std::as_writable_bytes(std::span(compression.ids)));
  for (std::size_t token = 0; token < compression.ids.size(); ++token)
    MILLRACE_CHECK(compression.ids[token] >= 0 && compression.ids[token] < compression.vocabulary, ExitCode::data, compression_component,
                   "{}: token {} has the compressed id {}, expected 0 to {}", path, token, compression.ids[token],
                   compression.vocabulary - 1);
  return compression;
}

void write_token_compression(const std::string& path, const TokenCompression& compression) {
  const TensorToWrite table{.name = lookup_table,
                            .dtype = FileDType::i32,
                            .shape = {static_cast<std::int64_t>(compression.ids.size())},
                            .bytes = std::as_bytes(std::span(compression.ids))};
  write_safetensors(path, std::span(&table, 1),
                    {{vocabulary_entry, std::to_string(compression.vocabulary)}, {padding_entry, std::to_string(compression.padding)}});
}

}  // namespace millrace::runtime

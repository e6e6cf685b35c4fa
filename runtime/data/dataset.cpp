#include "runtime/data/dataset.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"
#include "runtime/data/token_file.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {
namespace {

/// Accepts Megatron's way to name data: the path without .bin and .idx.
std::vector<std::string> with_prefixes_spelled_out(std::vector<std::string> sources) {
  std::error_code error;
  for (std::string& source : sources) {
    if (std::filesystem::exists(source, error) || megatron_index_beside(source + ".bin").empty()) continue;
    source += ".bin";
  }
  return sources;
}

/// Hashes the files' names and sizes, and the token and document counts of Megatron's indices: the same .bin has another meaning
/// with another .idx or without one.
std::string fingerprint_of(std::span<const DataFile> files) {
  std::string indices;
  for (const DataFile& file : files) {
    const auto index = megatron_index_beside(file.path);
    if (!index.empty()) indices += hash_of(MappedFile(index).bytes()).hex();
  }
  return data_fingerprint(files) + (indices.empty() ? "" : "-" + hash_of(indices).hex());
}

/// Holds out the last part of the stream of a single file.
void split_single(Dataset& data, std::shared_ptr<const TokenStream> stream, std::int64_t every) {
  MILLRACE_CHECK(stream->size() > 0, ExitCode::data, "data", "no tokens for training: the only file is empty");
  const auto part = last_part(*stream, every);
  data.held_out_text = describe(part, stream->size());
  data.train_files = 1;
  data.train = part_of(stream, 0, part.begin);
  if (part.begin < stream->size()) data.held_out = part_of(stream, part.begin, stream->size());
}

/// Holds out every n-th of several files.
template <class Open>
void split_files(Dataset& data, const std::vector<DataFile>& files, std::int64_t every, const Open& open) {
  const SplitFiles split = split_held_out(files, every);
  data.train_files = static_cast<std::int64_t>(split.train.size());
  data.held_out_files = static_cast<std::int64_t>(split.held_out.size());
  data.train = open(split.train);
  MILLRACE_CHECK(data.train->size() > 0, ExitCode::data, "data", "no tokens for training: {} files, all of them empty or held out",
                 files.size());
  if (!split.held_out.empty()) data.held_out = open(split.held_out);
  const auto tokens = data.held_out ? data.held_out->size() : 0;
  if (data.held_out && tokens < 2) data.held_out.reset();
  if (every == 0) {
    data.held_out_text = "nothing (data.held_out = 0)";
  } else if (split.held_out.empty()) {
    data.held_out_text =
        fmt::format("nothing: data.held_out = {} takes every {}th file, but there are only {}", every, every, files.size());
  } else if (!data.held_out) {
    data.held_out_text = fmt::format("nothing: the {} held-out files have {} tokens", split.held_out.size(), tokens);
  } else {
    data.held_out_text = fmt::format("{} files with {} tokens", split.held_out.size(), tokens);
  }
}

}  // namespace

std::string describe(const LastPart& part, std::int64_t tokens) {
  if (!part.problem.empty()) return "nothing of the only file: " + part.problem;
  const std::int64_t held = tokens - part.begin;
  return fmt::format("the last {} tokens of {} ({:.1f} %), {}", held, tokens, 100 * static_cast<double>(held) / static_cast<double>(tokens),
                     part.at_document ? "from the beginning of a document" : "cut in its only document");
}

std::vector<DataFile> content_files(std::vector<DataFile> files, bool text) {
  if (text) return files;
  std::vector<DataFile> all;
  for (DataFile& file : files) {
    const auto index = megatron_index_beside(file.path);
    DataFile beside{index, std::filesystem::path(file.name).replace_extension(".idx").string(), 0};
    all.push_back(std::move(file));
    if (index.empty()) continue;
    beside.size = std::filesystem::file_size(index);
    all.push_back(std::move(beside));
  }
  return all;
}

std::vector<DataFile> data_files(const DataConfig& config) {
  MILLRACE_CHECK(config.text.empty() != config.tokens.empty(), ExitCode::config, "data", "{}, expected exactly one of them",
                 config.text.empty() ? "neither data.text nor data.tokens is given" : "data.text and data.tokens are both given");
  const bool text = !config.text.empty();
  // A folder of token files often contains their tokenizer too, so only files with a known suffix are taken.
  const std::vector<std::string> suffixes = text || !config.suffixes.empty() ? config.suffixes : std::vector<std::string>{".bin"};
  return list_data_files(text ? config.text : with_prefixes_spelled_out(config.tokens), suffixes);
}

Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary) {
  const auto files = data_files(config);
  const bool text = !config.text.empty();
  MILLRACE_CHECK(!text || vocabulary >= ByteTokenizer::vocabulary, ExitCode::data, "data",
                 "data.text has {} tokens (256 bytes and the end of a document), the model's vocabulary has {}", +ByteTokenizer::vocabulary,
                 vocabulary);
  const auto open = [&](const std::vector<DataFile>& part) {
    return text ? open_text_stream(part) : open_token_stream(part, vocabulary, static_cast<std::int32_t>(config.separator));
  };
  Dataset data;
  if (files.size() == 1 && config.held_out > 1) {
    split_single(data, open(files), config.held_out);
  } else {
    split_files(data, files, config.held_out, open);
  }
  if (!text) data.format = to_string(TokenFile(files.front().path, vocabulary).format());
  data.files = content_files(files, text);
  data.fingerprint = fmt::format("{}-{}-{}", text ? data_fingerprint(files) : fingerprint_of(files), data.train->size(),
                                 data.held_out ? data.held_out->size() : 0);
  return data;
}

}  // namespace millrace::runtime

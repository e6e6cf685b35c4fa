#include "runtime/data/dataset.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/data/token_file.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {
namespace {

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

/// A source, divided in what is trained on and what is held out.
struct Split {
  std::unique_ptr<TokenStream> train, held_out;  // held_out is null if there is nothing
  std::int64_t train_files = 0, held_out_files = 0;
  std::string text;  // what is held out
};

/// Holds out the last part of the stream of a single file.
Split split_single(std::shared_ptr<const TokenStream> stream, std::int64_t every) {
  MILLRACE_CHECK(stream->size() > 0, ExitCode::data, "data", "no tokens for training: the only file is empty");
  const auto part = last_part(*stream, every);
  Split split;
  split.text = describe(part, stream->size());
  split.train_files = 1;
  split.train = part_of(stream, 0, part.begin);
  if (part.begin < stream->size()) split.held_out = part_of(stream, part.begin, stream->size());
  return split;
}

/// Holds out every n-th of several files.
template <class Open>
Split split_files(const std::vector<DataFile>& files, std::int64_t every, const Open& open) {
  const SplitFiles parts = split_held_out(files, every);
  Split split;
  split.train_files = std::ssize(parts.train);
  split.held_out_files = std::ssize(parts.held_out);
  split.train = open(parts.train);
  MILLRACE_CHECK(split.train->size() > 0, ExitCode::data, "data", "no tokens for training: {}, all of them empty or held out",
                 counted(files.size(), "file"));
  if (!parts.held_out.empty()) split.held_out = open(parts.held_out);
  const auto tokens = split.held_out ? split.held_out->size() : 0;
  if (split.held_out && tokens < 2) split.held_out.reset();
  if (every == 0) {
    split.text = "nothing (data.held_out = 0)";
  } else if (parts.held_out.empty()) {
    split.text = fmt::format("nothing: data.held_out = {} takes every {}th file, but there are only {}", every, every, files.size());
  } else if (!split.held_out) {
    split.text = fmt::format("nothing: {} in {}", counted(tokens, "token"), counted(parts.held_out.size(), "held-out file"));
  } else {
    split.text = fmt::format("{} with {}", counted(parts.held_out.size(), "file"), counted(tokens, "token"));
  }
  return split;
}

/// Files that one tokenizer wrote have tokens of one width. Tokens of another may all be in the vocabulary by chance, and mean nothing.
void check_width(const RunFiles& files, std::int64_t vocabulary) {
  std::vector<TokenFile> trained;
  for (const SourceFiles& source : files.sources) trained.emplace_back(source.files.front().path, vocabulary);
  for (const DataFile& file : files.validation) {
    const int width = TokenFile(file.path, vocabulary).width();
    const bool same = std::ranges::any_of(trained, [&](const TokenFile& other) { return other.width() == width; });
    MILLRACE_CHECK(same, ExitCode::data, "data", "{} has {} bits per token, {} has {}; expected files of one tokenizer", file.path.string(),
                   8 * width, files.sources.front().files.front().path.string(), 8 * trained.front().width());
  }
}

/// The formats of the token files that are trained on, in the order in which they are met: "Megatron", or "Megatron and llm.c, 16 bits per
/// token".
std::string formats_text(const RunFiles& files) {
  std::vector<std::string> formats;
  for (const SourceFiles& source : files.sources)
    for (const DataFile& file : source.files) {
      const std::string format = to_string(token_format(file.path));
      if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
    }
  return fmt::format("{}", fmt::join(formats, " and "));
}

/// Opens the validation data.
template <class Open>
void open_validation(Dataset& data, const RunFiles& files, const DataConfig& config, std::int64_t vocabulary, const Open& open) {
  if (config.text.empty()) check_width(files, vocabulary);
  data.held_out = open(files.validation);
  const std::int64_t tokens = data.held_out->size();
  MILLRACE_CHECK(tokens >= 2, ExitCode::data, "data", "{} in {}, expected 2 tokens or more", counted(tokens, "token"),
                 counted(files.validation.size(), "file"));
  data.validation = true;
  data.held_out_files = std::ssize(files.validation);
  constexpr std::size_t shown = 3;
  std::vector<std::string> paths;
  for (const DataFile& file : files.validation)
    if (paths.size() < shown) paths.push_back(file.path.string());
  const auto others = files.validation.size() - paths.size();
  data.held_out_text =
      fmt::format("{} with {} tokens{}: {}{}{}", paths.size() + others == 1 ? "a file" : fmt::format("{} files", data.held_out_files),
                  tokens, config.validation_found ? ", found beside the training data" : "", fmt::join(paths, ", "),
                  others > 0 ? fmt::format(" and {} more", others) : "",
                  files.left_out > 0 ? fmt::format(" ({} of them in folders of training data, and not trained on)", files.left_out) : "");
}

/// Holds out a part of each source.
void hold_out(Dataset& data, std::vector<Split>& splits) {
  std::vector<std::unique_ptr<TokenStream>> parts;
  std::string texts;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    data.held_out_files += splits[i].held_out_files;
    if (splits[i].held_out) parts.push_back(std::move(splits[i].held_out));
    texts += splits.size() == 1 ? splits[i].text : fmt::format("{}{}: {}", i > 0 ? "; " : "", data.sources[i].name, splits[i].text);
  }
  data.held_out_text = texts;
  if (!parts.empty()) data.held_out = join(std::move(parts));
}

/// Names, sizes and token counts of everything that the run reads. The last number is that of the tokens it evaluates on.
std::string fingerprint_of(const RunFiles& files, const Dataset& data, bool text) {
  const auto listed = [text](const std::vector<DataFile>& part) { return text ? data_fingerprint(part) : fingerprint_of(part); };
  std::string all = listed(files.sources.front().files);
  if (files.sources.size() > 1 || data.validation) {
    std::string list;
    for (std::size_t i = 0; i < files.sources.size(); ++i)
      list += fmt::format("{}:{}\n", listed(files.sources[i].files), data.sources[i].stream->size());
    if (data.validation) list += fmt::format("validation:{}\n", listed(files.validation));
    all = hash_of(list).hex();
  }
  return fmt::format("{}-{}-{}", all, data.train_tokens(), data.held_out ? data.held_out->size() : 0);
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

std::int64_t Dataset::train_tokens() const {
  std::int64_t tokens = 0;
  for (const TrainingSource& source : sources) tokens += source.stream->size();
  return tokens;
}

std::vector<WeightedStream> Dataset::streams() const {
  std::vector<WeightedStream> streams;
  for (const TrainingSource& source : sources) streams.push_back({source.stream.get(), source.weight, source.name});
  return streams;
}

Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary) {
  const RunFiles files = list_run_files(config);
  const bool text = !config.text.empty();
  MILLRACE_CHECK(!text || vocabulary >= ByteTokenizer::vocabulary, ExitCode::data, "data",
                 "data.text has {} tokens (256 bytes and the end of a document), the model's vocabulary has {}", +ByteTokenizer::vocabulary,
                 vocabulary);
  const auto open = [&](const std::vector<DataFile>& part) {
    return text ? open_text_stream(part) : open_token_stream(part, vocabulary, static_cast<std::int32_t>(config.separator));
  };
  const std::int64_t every = files.validation.empty() ? config.held_out : 0;
  Dataset data;
  std::vector<Split> splits;
  for (std::size_t i = 0; i < files.sources.size(); ++i) {
    const SourceFiles& source = files.sources[i];
    auto& split = splits.emplace_back(labelled(source_label(files, i), [&] {
      return source.files.size() == 1 && every > 1 ? split_single(open(source.files), every) : split_files(source.files, every, open);
    }));
    data.train_files += split.train_files;
    data.sources.push_back({source.name, source.weight, std::move(split.train), split.train_files});
    const auto content = content_files(source.files, text);
    data.files.insert(data.files.end(), content.begin(), content.end());
  }
  if (files.validation.empty()) {
    hold_out(data, splits);
  } else {
    labelled("data.validation", [&] { open_validation(data, files, config, vocabulary, open); });
    const auto content = content_files(files.validation, text);
    data.files.insert(data.files.end(), content.begin(), content.end());
  }
  if (!text) data.format = formats_text(files);
  data.fingerprint = fingerprint_of(files, data, text);
  return data;
}

}  // namespace millrace::runtime

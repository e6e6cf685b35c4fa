#include "runtime/data/run_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/base/count.hpp"
#include "runtime/data/megatron_index.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

/// Accepts Megatron's way to name data: the path without .bin and .idx.
std::vector<std::string> with_prefixes_spelled_out(std::vector<std::string> entries) {
  std::error_code error;
  for (std::string& entry : entries) {
    if (fs::exists(entry, error) || megatron_index_beside(entry + ".bin").empty()) continue;
    entry += ".bin";
  }
  return entries;
}

/// Lists the files of some entries of data.text, data.tokens or data.validation.
class Lister {
 public:
  explicit Lister(const DataConfig& config) : text_(!config.text.empty()), suffixes_(config.suffixes) {
    // A folder of token files often contains their tokenizer too, so only files with a known suffix are taken.
    if (!text_ && suffixes_.empty()) suffixes_ = {".bin"};
  }
  /// `key`: of the entries, for errors; empty if their label names it.
  [[nodiscard]] std::vector<DataFile> operator()(const std::vector<std::string>& entries, std::string_view key = {}) const {
    return list_data_files(text_ ? entries : with_prefixes_spelled_out(entries), suffixes_, key);
  }

 private:
  bool text_;
  std::vector<std::string> suffixes_;
};

/// The last `count` parts of a path, without its suffix .bin.
std::string end_of(const std::string& path, std::ptrdiff_t count) {
  fs::path normal = fs::path(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();  // "web/"
  if (normal.extension() == ".bin") normal.replace_extension();
  const std::vector<fs::path> parts(normal.begin(), normal.end());
  fs::path end;
  for (auto part = parts.end() - std::min<std::ptrdiff_t>(count, std::ssize(parts)); part != parts.end(); ++part) end /= *part;
  return end.string();
}

std::vector<std::string> names_of(const std::vector<std::string>& entries) {
  constexpr std::ptrdiff_t longest = 64;
  std::vector<std::string> names;
  for (std::ptrdiff_t count = 1; count <= longest; ++count) {
    names.clear();
    for (const std::string& entry : entries) names.push_back(end_of(entry, count));
    if (std::set(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

std::vector<SourceFiles> list_sources(const DataConfig& config, const Lister& list) {
  const auto& entries = config.text.empty() ? config.tokens : config.text;
  const char* const key = config.text.empty() ? "data.tokens" : "data.text";
  if (config.weights.empty()) return {{entries.size() == 1 ? end_of(entries.front(), 1) : "data", 1, list(entries, key)}};
  MILLRACE_CHECK(config.weights.size() == entries.size(), ExitCode::config, "data", "data.weights has {}, {} has {}",
                 counted(config.weights.size(), "number"), key, counted(entries.size(), "entry"));
  const auto names = names_of(entries);
  std::vector<SourceFiles> sources;
  for (std::size_t i = 0; i < entries.size(); ++i)
    sources.push_back(
        {names[i], config.weights[i], labelled(entries.size() > 1 ? "source " + names[i] : "", [&] { return list({entries[i]}, key); })});
  return sources;
}

/// A training file: its source, and whether an entry names the file itself, not a folder that contains it.
struct Use {
  std::size_t source = 0;
  bool named = false;
};

/// Where every training file lies.
std::map<fs::path, Use> uses_of(const DataConfig& config, const std::vector<SourceFiles>& sources) {
  std::map<fs::path, Use> uses;
  for (std::size_t source = 0; source < sources.size(); ++source)
    for (const DataFile& file : sources[source].files) {
      const auto [use, is_new] = uses.emplace(place_of(file.path), Use{source});
      MILLRACE_CHECK(is_new, ExitCode::data, "data", "{}: a file of two sources, {} and {}", file.path.string(),
                     sources[use->second.source].name, sources[source].name);
    }
  std::error_code error;
  for (const std::string& entry : with_prefixes_spelled_out(config.text.empty() ? config.tokens : config.text))
    if (!fs::is_directory(entry, error)) uses.at(place_of(entry)).named = true;
  return uses;
}

/// A folder of training data may contain the validation data; a file that is named as both is a mistake.
void leave_validation_out(const DataConfig& config, RunFiles& files) {
  const auto uses = uses_of(config, files.sources);
  std::set<fs::path> validation;
  for (const DataFile& file : files.validation) {
    const fs::path place = place_of(file.path);
    const auto use = uses.find(place);
    if (use == uses.end()) continue;
    MILLRACE_CHECK(!use->second.named, ExitCode::data, "data", "{}: named as training data by {} and as validation data by data.validation",
                   file.path.string(), config.text.empty() ? "data.tokens" : "data.text");
    validation.insert(place);
  }
  files.left_out = std::ssize(validation);
  if (validation.empty()) return;
  for (std::size_t source = 0; source < files.sources.size(); ++source) {
    auto& own = files.sources[source].files;
    const auto listed = own.size();
    std::erase_if(own, [&](const DataFile& file) { return validation.contains(place_of(file.path)); });
    const auto label = source_label(files, source);
    MILLRACE_CHECK(!own.empty(), ExitCode::data, "data", "{}{}: nothing is left to train on: data.validation names all of {}",
                   label.empty() ? "" : label + ": ", fmt::join(config.text.empty() ? config.tokens : config.text, ", "),
                   counted(listed, "file"));
  }
}

/// Text is read as bytes, and so would be a token file, whose loss would mean nothing. A run that trains on such files as bytes may
/// evaluate on them.
void refuse_token_files(const DataConfig& config, const std::vector<DataFile>& validation) {
  const auto is_token_file = [](const fs::path& path) { return path.extension() == ".bin"; };
  const auto found = std::ranges::find_if(validation, [&](const DataFile& file) { return is_token_file(file.path); });
  if (found == validation.end()) return;
  const auto training = Lister(config)(config.text);
  MILLRACE_CHECK(
      std::ranges::any_of(training, [&](const DataFile& file) { return is_token_file(file.path); }), ExitCode::data, "data",
      "data.validation = {}: a token file, whose bytes would be read as text, as those of data.text are; expected text files, or "
      "data.tokens to train on tokens",
      found->path.string());
}

/// The names of files are part of what identifies a run, so files of the same name in different places get different ones.
void put_in_front(const std::string& prefix, std::vector<DataFile>& files) {
  for (DataFile& file : files) file.name = prefix + file.name;
}

/// What precedes the word `train` in a file's name; nothing if it is no word of it.
std::optional<std::string> before_train(const fs::path& file) {
  constexpr std::string_view word = "train";
  const std::string name = file.stem().string();
  const auto ends_word = [](char letter) { return letter == '_' || letter == '-' || letter == '.'; };
  for (auto at = name.rfind(word); at != std::string::npos; at = at == 0 ? std::string::npos : name.rfind(word, at - 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || ends_word(name[at - 1])) && (end == name.size() || ends_word(name[end]))) return name.substr(0, at);
  }
  return std::nullopt;
}

/// Whether `name` is `prefix`, the word val, and whatever else, with the suffix .bin.
bool is_validation(const std::string& name, const std::string& prefix) {
  if (!name.ends_with(".bin") || !name.starts_with(prefix + "val")) return false;
  const char after = name[prefix.size() + 3];
  return after == '.' || after == '_' || after == '-';
}

}  // namespace

RunFiles list_run_files(const DataConfig& config) {
  MILLRACE_CHECK(config.text.empty() != config.tokens.empty(), ExitCode::config, "data", "{}, expected exactly one of them",
                 config.text.empty() ? "neither data.text nor data.tokens is given" : "data.text and data.tokens are both given");
  const Lister list(config);
  RunFiles files;
  files.sources = list_sources(config, list);
  if (!config.validation.empty()) files.validation = list_validation_files(config);
  if (files.sources.size() > 1 || !files.validation.empty()) leave_validation_out(config, files);
  if (files.sources.size() > 1)
    for (std::size_t source = 0; source < files.sources.size(); ++source)
      put_in_front(fmt::format("{}/", source), files.sources[source].files);
  return files;
}

std::vector<DataFile> list_validation_files(const DataConfig& config) {
  auto files = labelled("data.validation", [&] { return Lister(config)(config.validation); });
  if (!config.text.empty()) refuse_token_files(config, files);
  put_in_front("validation/", files);
  return files;
}

FoundValidation find_validation(const DataConfig& config) try {
  FoundValidation found;
  if (config.tokens.empty()) return found;
  DataConfig training = config;
  training.weights.clear();
  training.validation.clear();
  const auto files = list_run_files(training).sources.front().files;
  std::map<fs::path, std::set<std::string>> prefixes;  // by folder
  for (const DataFile& file : files)
    if (const auto prefix = before_train(file.path)) prefixes[file.path.parent_path()].insert(*prefix);
  for (const auto& [folder, all] : prefixes)
    for (const auto& entry : fs::directory_iterator(folder.empty() ? fs::path(".") : folder)) {
      const std::string name = entry.path().filename().string();
      const bool matches = std::ranges::any_of(all, [&](const std::string& prefix) { return is_validation(name, prefix); });
      if (matches && entry.is_regular_file()) found.files.push_back((folder / name).string());
    }
  // A file that data.tokens names itself is to be trained on.
  std::set<fs::path> named;
  std::error_code error;
  for (const std::string& entry : with_prefixes_spelled_out(config.tokens))
    if (!fs::is_directory(entry, error)) named.insert(place_of(entry));
  std::erase_if(found.files, [&](const std::string& file) { return named.contains(place_of(file)); });
  std::ranges::sort(found.files);
  found.in_training = std::ranges::any_of(
      files, [&](const DataFile& file) { return std::ranges::find(found.files, file.path.string()) != found.files.end(); });
  return found;
} catch (const Error&) {  // the run itself will say what is wrong with its data
  return {};
} catch (const fs::filesystem_error&) {
  return {};
}

std::string doubt_of_text(const std::vector<std::string>& text, const std::vector<std::string>& suffixes) {
  if (text.empty()) return {};
  try {
    const auto files = list_data_files(text, suffixes);
    const auto lines = std::ranges::find_if(files, [](const DataFile& file) { return file.path.extension() == ".jsonl"; });
    if (lines == files.end()) return {};
    return fmt::format("{} is read as it is, with its braces and keys; `millrace data tokenize` makes tokens of the texts in its lines",
                       lines->path.string());
  } catch (const Error&) {  // opening the data says what is wrong with them
    return {};
  }
}

}  // namespace millrace::runtime

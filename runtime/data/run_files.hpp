#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// The files of one source of training data.
struct SourceFiles {
  std::string name;  // the end of its path without .bin, as much of it as distinguishes the sources
  double weight = 1;
  std::vector<DataFile> files;  // in byte order of their paths
};

/// The files that a run's description names, before any of them is opened.
struct RunFiles {
  std::vector<SourceFiles> sources;  // one, unless data.weights is given
  std::vector<DataFile> validation;  // of data.validation
  std::int64_t left_out = 0;         // files in folders of training data that are not trained on, since data.validation names them
};

/// Lists what data.text or data.tokens and data.validation name. With data.weights each entry of data.text or data.tokens is a source;
/// without, all entries are one source, whose files are sorted together. Errors: Error(config) unless exactly one of data.text and
/// data.tokens is set, with a weight for each entry or none; Error(data) as list_data_files() throws it, with the key or the source
/// in front, for a file that is part of two sources, and for one that is named as training data and as validation data.
[[nodiscard]] RunFiles list_run_files(const DataConfig& config);

/// The files that data.validation names, of the kind of data.text or data.tokens, without a look at those. Errors: Error(data) as
/// list_data_files() throws it, with the key in front.
[[nodiscard]] std::vector<DataFile> list_validation_files(const DataConfig& config);

/// The validation data that llm.c and nanoGPT put beside their training data, found by name: for a file of data.tokens with the word
/// `train` in its name, such as train.bin or fineweb_train_000001.bin, the .bin files in its folder whose names begin alike, with `val` in
/// place of `train`. Files that data.tokens names are not among them.
struct FoundValidation {
  std::vector<std::string> files;  // in byte order of their paths; empty if there are none, or if the training data cannot be listed
  bool in_training = false;        // a folder of data.tokens contains one of them
};
[[nodiscard]] FoundValidation find_validation(const DataConfig& config);

/// A warning if there are files of JSON lines among data.text, which are read as they are; empty if there are none, or if the files cannot
/// be listed.
[[nodiscard]] std::string doubt_of_text(const std::vector<std::string>& text, const std::vector<std::string>& suffixes);

/// The label of a source in errors; empty if there is only one.
[[nodiscard]] inline std::string source_label(const RunFiles& files, std::size_t source) {
  return files.sources.size() > 1 ? "source " + files.sources[source].name : "";
}

/// Returns body(). An error's message gets the label in front, unless that is empty: "[data] source web: no files found in data/web".
template <class Body>
decltype(auto) labelled(const std::string& label, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    if (label.empty()) throw;
    fail(error.code(), "data", "{}: {}", label, without_component(error.what()));
  }
}

}  // namespace millrace::runtime

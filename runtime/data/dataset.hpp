#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/batch_source.hpp"
#include "runtime/data/last_part.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/data/token_stream.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// One source of training data.
struct TrainingSource {
  std::string name;
  double weight = 1;
  std::unique_ptr<TokenStream> stream;
  std::int64_t files = 0;
};

/// The opened data of a run: the training streams, what it evaluates on, and a fingerprint of both.
struct Dataset {
  std::vector<TrainingSource> sources;    // one, unless data.weights is given
  std::unique_ptr<TokenStream> held_out;  // of all sources, or the validation data; null if nothing is held out
  bool validation = false;                // held_out is data.validation
  std::string held_out_text;              // what is held out, or why nothing is, as text for messages
  std::string fingerprint;                // part of a run's identity: names, sizes and token counts of the files, but not their folder
  std::string format;                     // the formats of the token files, as text for messages; empty for text
  std::vector<DataFile> files;            // every file that is read: content_files()
  std::int64_t train_files = 0;
  std::int64_t held_out_files = 0;  // number of files held out whole

  [[nodiscard]] std::int64_t train_tokens() const;
  /// The training streams as BatchSource takes them.
  [[nodiscard]] std::vector<WeightedStream> streams() const;
};

/// Describes how much is held out, such as "the last 120 tokens of 1200 (10.0 %), from the beginning of a document".
[[nodiscard]] std::string describe(const LastPart& part, std::int64_t tokens);

/// The files whose bytes make up the content of the data: `files`, and the .idx beside each Megatron token file.
[[nodiscard]] std::vector<DataFile> content_files(std::vector<DataFile> files, bool text);

/// Opens data.text or data.tokens, and data.validation. Of a source with several files every n-th is held out (n = data.held_out), of a
/// single file the last n-th part (last_part). `vocabulary` is the model's vocabulary size; text needs 257 or more. Errors: Error(data)
/// for files that are missing, unreadable, damaged or empty, and for validation data whose tokens have another width than those that are
/// trained on; those of list_run_files().
[[nodiscard]] Dataset open_dataset(const DataConfig& config, std::int64_t vocabulary);

}  // namespace millrace::runtime

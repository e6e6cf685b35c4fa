#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace millrace::runtime {

/// The files that make up a tokenizer, by name: the vocabulary, and those beside it that say how it is used (special tokens, chat
/// template, the tokens that end a generation).
struct TokenizerFiles {
  std::string source;                        // where they were read, for messages
  std::map<std::string, std::string> files;  // the text of each file by its name; empty: no tokenizer

  [[nodiscard]] bool empty() const noexcept { return files.empty(); }
  /// The file from which open_tokenizer() reads the vocabulary: tokenizer.json, tokenizer.model, the .tiktoken file, or vocab.json (which
  /// open_tokenizer() reads with the merges.txt beside it, if they are GPT-2's).
  [[nodiscard]] const std::string& vocabulary_file() const;
  /// The hash of that file's bytes. Tokenizers with the same hash give the same ids.
  [[nodiscard]] std::string vocabulary_hash() const;
};

/// The names in a folder that belong to a tokenizer or to how text is generated; none if the folder is missing.
[[nodiscard]] std::vector<std::string> tokenizer_file_names(const std::filesystem::path& folder);

/// Reads the tokenizer that `path` names, as open_tokenizer() takes it. Of a folder without a vocabulary, and of a path that does not
/// exist, nothing is returned. A file with a name of its own (gpt2.json) is alone and gets the name that libraries look for; one with that
/// name already (tokenizer.json) brings the files beside it. Errors: Error(data) for files that cannot be read.
[[nodiscard]] TokenizerFiles read_tokenizer_files(const std::filesystem::path& path);

/// The byte vocabulary as files that transformers reads: byte-level pairs without merges, whose ids are the bytes.
[[nodiscard]] TokenizerFiles byte_tokenizer_files();
/// Whether the vocabulary is that of byte_tokenizer_files().
[[nodiscard]] bool is_byte_vocabulary(const TokenizerFiles& files);

/// Adds what transformers' AutoTokenizer needs beside a tokenizer.json and the files lack: a tokenizer_config.json with the class and the
/// tokens that begin and end a document. Does nothing for other vocabularies. Errors: Error(data) for a vocabulary that cannot be read.
void complete_for_transformers(TokenizerFiles& files);

/// Creates a folder with the files, whole or not at all; it must not exist. What a killed process left of an earlier attempt is removed.
/// Errors: Error(storage).
void write_tokenizer_folder(const std::string& folder, const TokenizerFiles& files);

/// The folder beside a token file that holds the tokenizer of its ids: "shard.tokenizer" for shard.bin.
[[nodiscard]] std::string tokenizer_beside(const std::string& token_file);

}  // namespace millrace::runtime

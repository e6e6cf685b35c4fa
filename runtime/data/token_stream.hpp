#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/mapped_file.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/data/token_file.hpp"

namespace millrace::runtime {

/// A sequence of documents, addressed as tokens by index, without holding them in memory. The last token of a document is a
/// *border*: the end-of-document token of the byte vocabulary, the separator of a token file, the last token of a Megatron
/// sequence, or the last token of a file. All members may be called from several threads at once, and none allocates.
class TokenStream {
 public:
  virtual ~TokenStream() = default;

  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;

  /// Copies the tokens [first, first + tokens.size()), which must be inside the stream. Errors: Error(data) for a token outside
  /// the vocabulary.
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;

  /// The index of the first border in [first, last), or last.
  [[nodiscard]] virtual std::int64_t next_border(std::int64_t first, std::int64_t last) const = 0;
};

/// Opens text files through the byte tokenizer: for each file its bytes, then ByteTokenizer::end_of_document. Empty files are
/// skipped. Errors: Error(data) for a file that cannot be read.
[[nodiscard]] std::unique_ptr<TokenStream> open_text_stream(std::span<const DataFile> files);

/// Opens token files; `separator` is the token that ends a document, -1 if there is none. Each sequence of a Megatron file is a
/// document too. Errors: Error(data), see TokenFile.
[[nodiscard]] std::unique_ptr<TokenStream> open_token_stream(std::span<const DataFile> files, std::int64_t vocabulary,
                                                             std::int32_t separator);

/// Several streams, one after another; the last token of each is a border.
[[nodiscard]] std::unique_ptr<TokenStream> join(std::vector<std::unique_ptr<TokenStream>> streams);

}  // namespace millrace::runtime

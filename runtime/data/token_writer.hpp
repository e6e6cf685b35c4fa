#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

/// What token ids are written as (see TokenFile): `megatron` PREFIX.bin and PREFIX.idx, a sequence for each document; `llmc` one file.
enum class TokenTarget : std::uint8_t { megatron, llmc };

/// Writes a file of token ids, document by document, in memory that does not grow with it. Until finish() everything lies under names that
/// end with ".partial"; afterwards there are whole files, on the disk, under the final names. Ids are 16 bits wide where the vocabulary
/// allows (below 65500 for Megatron as its own writer decides, up to 65536 for llm.c), else 32.
/// Errors: Error(storage) where the disk is full or fails; Error(data) for an id outside the vocabulary, for more tokens than llm.c's
/// header can count, and for more in a document than Megatron's index can (2^31 - 1 each); Error(start) where another process is writing
/// the same file. Belongs to one thread.
class TokenWriter {
 public:
  /// `path` is the prefix for Megatron, the file for llm.c.
  TokenWriter(TokenTarget target, std::string path, std::int64_t vocabulary);
  /// Without finish(), removes what was written.
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// More tokens of the document that is being written.
  void append(std::span<const std::int32_t> ids);
  /// The document ends here. One without tokens leaves nothing.
  void end_document();
  /// Errors: also Error(data) if there are no tokens.
  void finish();

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t documents() const noexcept { return documents_; }
  [[nodiscard]] int width() const noexcept { return width_; }  // bytes of a token
  /// The files that finish() leaves.
  [[nodiscard]] std::vector<std::string> paths() const;

 private:
  /// A file under its partial name, written through a buffer.
  class Partial {
   public:
    explicit Partial(const std::string& path);
    void write(const void* bytes, std::size_t count);
    void flush();
    void finish();  // flush, and on the disk
    [[nodiscard]] File& file() noexcept { return file_; }
    [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

   private:
    File lock_;  // the same file
    File file_;
    std::vector<std::byte> buffer_;
  };

  [[noreturn]] void refuse(std::int32_t id, std::int64_t index) const;
  void write_llmc_header();
  void write_index();
  template <class Write>
  void for_each_length(Write write);

  TokenTarget target_;
  std::string path_;
  std::int64_t vocabulary_;
  int width_;
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t in_document_ = 0;
  bool finished_ = false;
  std::optional<Partial> tokens_file_, index_, lengths_;
};

}  // namespace millrace::runtime

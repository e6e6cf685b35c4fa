#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/file_system.hpp"

namespace millrace::runtime {

/// The output format (see TokenFile): `megatron` writes PREFIX.bin and PREFIX.idx with one sequence per document; `llmc` writes a
/// single file.
enum class TokenTarget : std::uint8_t { megatron, llmc };

/// Writes a file of token ids document by document, in constant memory. Until finish() all output has names that end with
/// ".partial"; afterwards the complete files have their final names and are synced to the disk. Ids are 16 bits wide if the
/// vocabulary allows it (below 65500 for Megatron, as its own writer decides, up to 65536 for llm.c), else 32 bits. Errors:
/// Error(storage) if the disk is full or fails; Error(data) for an id outside the vocabulary, for more tokens than llm.c's header
/// can count, and for a document with more tokens than Megatron's index can count (2^31 - 1 each); Error(start) if another
/// process is writing the same file. Belongs to one thread.
class TokenWriter {
 public:
  /// `path` is the prefix for Megatron and the file for llm.c.
  TokenWriter(TokenTarget target, std::string path, std::int64_t vocabulary);
  /// Removes what was written, unless finish() was called.
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Appends tokens to the current document.
  void append(std::span<const std::int32_t> ids);
  /// Ends the current document. An empty document writes nothing.
  void end_document();
  /// Completes the files. Errors: Error(data) also if there are no tokens.
  void finish();

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t documents() const noexcept { return documents_; }
  [[nodiscard]] int width() const noexcept { return width_; }  // bytes per token
  /// The files that finish() leaves behind.
  [[nodiscard]] std::vector<std::string> paths() const;

 private:
  /// A file under its partial name, with buffered writes.
  class Partial {
   public:
    explicit Partial(const std::string& path);
    void write(const void* bytes, std::size_t count);
    void flush();
    void finish();  // flushes and syncs to the disk
    [[nodiscard]] File& file() noexcept { return file_; }
    [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

   private:
    File lock_;  // the same file, held for its lock
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

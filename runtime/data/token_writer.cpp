#include "runtime/data/token_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/data/megatron_index.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* token_writer_component = "data";
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
// tokens per file or document, where the format counts them with 31 bits
constexpr std::int64_t max_tokens = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t header_words = 256;  // of llm.c's header, four bytes each

std::string partial(const std::string& path) { return path + ".partial"; }

/// A failing disk has already been reported by the time this runs.
void remove_quietly(const std::string& path) {
  try {
    remove_file(path);
  } catch (const Error&) {
    return;
  }
}

/// Creates an empty file, unless another process is writing it.
File create_locked(const File& lock) {
  MILLRACE_CHECK(lock.try_lock(), ExitCode::start, token_writer_component, "{}: another process is writing it", lock.path());
  try {
    return File::create(lock.path());
  } catch (const Error&) {
    remove_quietly(lock.path());
    throw;
  }
}

int width_for(TokenTarget target, std::int64_t vocabulary) {
  const std::int64_t narrow = target == TokenTarget::megatron ? 65499 : 65536;
  return vocabulary <= narrow ? 2 : 4;
}

}  // namespace

TokenWriter::Partial::Partial(const std::string& path) : lock_(File::append(partial(path))), file_(create_locked(lock_)) {
  buffer_.reserve(buffer_bytes);
}

void TokenWriter::Partial::write(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  if (buffer_.size() + count > buffer_bytes) flush();
  buffer_.insert(buffer_.end(), from, from + count);
}

void TokenWriter::Partial::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

void TokenWriter::Partial::finish() {
  flush();
  file_.sync();
}

TokenWriter::TokenWriter(TokenTarget target, std::string path, std::int64_t vocabulary)
    : target_(target), path_(std::move(path)), vocabulary_(vocabulary), width_(width_for(target, vocabulary)) {
  tokens_file_.emplace(paths().front());
  try {
    if (target_ == TokenTarget::megatron) lengths_.emplace(path_ + ".lengths");
    if (target_ == TokenTarget::llmc) write_llmc_header();
  } catch (...) {
    remove_file(tokens_file_->path());
    throw;
  }
}

TokenWriter::~TokenWriter() {
  for (auto* file : {&tokens_file_, &index_, &lengths_})
    if (!finished_ && *file) remove_quietly((*file)->path());
}

std::vector<std::string> TokenWriter::paths() const {
  if (target_ == TokenTarget::llmc) return {path_};
  return {path_ + ".bin", path_ + ".idx"};
}

void TokenWriter::refuse(std::int32_t id, std::int64_t index) const {
  fail(ExitCode::data, token_writer_component, "{}: token {} of document {} is {}, the vocabulary has {}", path_, index, documents_, id,
       vocabulary_);
}

void TokenWriter::append(std::span<const std::int32_t> ids) {
  std::array<std::byte, 4096> block;
  for (std::size_t from = 0; from < ids.size();) {
    const auto part = ids.subspan(from, std::min(ids.size() - from, block.size() / 4));
    std::byte* to = block.data();
    for (const std::int32_t id : part) {
      if (id < 0 || id >= vocabulary_) refuse(id, in_document_ + static_cast<std::int64_t>(from) + (to - block.data()) / width_);
      std::memcpy(to, &id, static_cast<std::size_t>(width_));  // little-endian: the low bytes come first
      to += width_;
    }
    tokens_file_->write(block.data(), static_cast<std::size_t>(to - block.data()));
    from += part.size();
  }
  tokens_ += static_cast<std::int64_t>(ids.size());
  in_document_ += static_cast<std::int64_t>(ids.size());
  MILLRACE_CHECK(target_ != TokenTarget::llmc || tokens_ <= max_tokens, ExitCode::data, token_writer_component,
                 "{}: more than {} tokens, which llm.c's header cannot count; write several files, or Megatron's format", path_,
                 max_tokens);
  MILLRACE_CHECK(in_document_ <= max_tokens, ExitCode::data, token_writer_component,
                 "{}: document {} has more than {} tokens, which Megatron's index cannot count", path_, documents_, max_tokens);
}

void TokenWriter::end_document() {
  if (in_document_ == 0) return;
  const auto length = static_cast<std::int32_t>(in_document_);
  if (lengths_) lengths_->write(&length, sizeof length);
  ++documents_;
  in_document_ = 0;
}

void TokenWriter::write_llmc_header() {
  std::array<std::int32_t, header_words> header{};
  header[0] = width_ == 2 ? 20240520 : 20240801;
  header[1] = width_ == 2 ? 1 : 7;
  tokens_file_->write(header.data(), sizeof header);  // finish() writes the count after all tokens
}

template <class Write>
void TokenWriter::for_each_length(Write write) {
  std::vector<std::int32_t> block;
  for (std::int64_t done = 0; done < documents_; done += std::ssize(block)) {
    block.resize(static_cast<std::size_t>(std::min<std::int64_t>(documents_ - done, 1 << 16)));
    lengths_->file().read_at(static_cast<std::uint64_t>(done) * 4, std::as_writable_bytes(std::span(block)));
    for (const std::int32_t length : block) write(length);
  }
}

void TokenWriter::write_index() {
  lengths_->flush();
  index_.emplace(path_ + ".idx");
  const std::uint64_t version = 1;
  const std::uint8_t code = width_ == 2 ? 8 : 4;
  const auto sequences = static_cast<std::uint64_t>(documents_);
  const std::uint64_t borders = sequences + 1;
  index_->write(megatron_magic.data(), megatron_magic.size());
  index_->write(&version, sizeof version);
  index_->write(&code, sizeof code);
  index_->write(&sequences, sizeof sequences);
  index_->write(&borders, sizeof borders);
  for_each_length([&](std::int32_t length) { index_->write(&length, sizeof length); });
  std::int64_t offset = 0;
  for_each_length([&](std::int32_t length) {
    index_->write(&offset, sizeof offset);
    offset += std::int64_t{length} * width_;
  });
  for (std::int64_t i = 0; i <= documents_; ++i) index_->write(&i, sizeof i);
  index_->finish();
}

void TokenWriter::finish() {
  end_document();
  MILLRACE_CHECK(tokens_ > 0, ExitCode::data, token_writer_component, "{}: no tokens to write", path_);
  tokens_file_->finish();
  if (target_ == TokenTarget::llmc) {
    const auto count = static_cast<std::int32_t>(tokens_);
    tokens_file_->file().write_at(8, std::as_bytes(std::span(&count, 1)));
    tokens_file_->file().sync();
  } else {
    write_index();
    // A .bin without its .idx could be taken for another format, and with an older .idx for other documents. So the old .idx is
    // removed first and the new one renamed last, each followed by a sync.
    const std::string bin = paths().front();
    if (kind_of(bin) != PathKind::missing) {
      remove_file(bin);
      sync_directory(parent_path(bin));
    }
    rename_path(index_->path(), paths().back());
    sync_directory(parent_path(bin));
  }
  rename_path(tokens_file_->path(), paths().front());
  finished_ = true;
  if (lengths_) remove_file(lengths_->path());
  sync_directory(parent_path(paths().front()));
}

}  // namespace millrace::runtime

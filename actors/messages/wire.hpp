#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/base/check.hpp"

/// Serialises phases as bytes for the control link: numbers in their memory representation (all hosts of a job run the same
/// build, which the run hash ensures), strings and vectors prefixed by their length, variants by their index. A message that is
/// truncated or too long throws Error(internal).
namespace millrace::actors {

class WireWriter {
 public:
  template <class T>
  void put(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    } else {
      std::apply([&](auto&... fields) { (put(fields), ...); }, value.tie());
    }
  }
  void put(std::string& text) { put_range(text); }
  template <class T>
  void put(std::vector<T>& values) {
    put_range(values);
  }
  template <class... Ts>
  void put(std::variant<Ts...>& value) {
    auto index = static_cast<std::uint32_t>(value.index());
    put(index);
    std::visit([&](auto& alternative) { put(alternative); }, value);
  }
  /// Restarts in the same memory.
  void clear() { bytes_.clear(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <class Range>
  void put_range(Range& range) {
    auto size = static_cast<std::uint64_t>(range.size());
    put(size);
    if constexpr (std::is_arithmetic_v<typename Range::value_type>) {
      const auto* bytes = reinterpret_cast<const std::byte*>(range.data());
      bytes_.insert(bytes_.end(), bytes, bytes + size * sizeof(typename Range::value_type));
    } else {
      for (auto& element : range) put(element);
    }
  }
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  WireReader(const std::byte* data, std::size_t size) : at_(data), left_(size) {}

  template <class T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      copy(&value, sizeof(T));
    } else {
      std::apply([&](auto&... fields) { (get(fields), ...); }, value.tie());
    }
  }
  void get(std::string& text) { get_range(text); }
  template <class T>
  void get(std::vector<T>& values) {
    get_range(values);
  }
  template <class... Ts>
  void get(std::variant<Ts...>& value) {
    std::uint32_t index = 0;
    get(index);
    MILLRACE_CHECK(index < sizeof...(Ts), ExitCode::internal, "actors.wire", "message kind {} found, {} known", index, sizeof...(Ts));
    // if the index is the same, its lists keep their capacity
    if (index != value.index()) emplace(value, index, std::index_sequence_for<Ts...>{});
    std::visit([&](auto& alternative) { get(alternative); }, value);
  }
  void finish() const { MILLRACE_CHECK(left_ == 0, ExitCode::internal, "actors.wire", "{} bytes more than the message has fields", left_); }

 private:
  void copy(void* to, std::size_t bytes) {
    MILLRACE_CHECK(bytes <= left_, ExitCode::internal, "actors.wire", "message ends {} bytes early", bytes - left_);
    if (bytes > 0) std::memcpy(to, at_, bytes);
    at_ += bytes;
    left_ -= bytes;
  }
  template <class Range>
  void get_range(Range& range) {
    using Element = typename Range::value_type;
    std::uint64_t size = 0;
    get(size);
    MILLRACE_CHECK(size <= left_, ExitCode::internal, "actors.wire", "a list of {} in a message with {} bytes left", size, left_);
    range.resize(size);
    if constexpr (std::is_arithmetic_v<Element>) {
      copy(range.data(), size * sizeof(Element));
    } else {
      for (auto& element : range) get(element);
    }
  }
  template <class Variant, std::size_t... I>
  static void emplace(Variant& value, std::size_t index, std::index_sequence<I...>) {
    ((index == I ? static_cast<void>(value.template emplace<I>()) : static_cast<void>(0)), ...);
  }
  const std::byte* at_;
  std::size_t left_;
};

/// The bytes are valid until this thread encodes again; a steady step allocates nothing.
template <class T>
[[nodiscard]] std::span<const std::byte> encode(const T& message) {
  thread_local WireWriter writer;
  writer.clear();
  writer.put(const_cast<T&>(message));  // tie() serves both reader and writer; nothing is changed here
  return writer.bytes();
}

/// Decodes into a message that may have been used before: its lists keep their capacity.
template <class T>
void decode(std::span<const std::byte> bytes, T& message) {
  WireReader reader(bytes.data(), bytes.size());
  reader.get(message);
  reader.finish();
}

/// Decodes messages one after another, each kind into an object of its own whose lists keep their capacity: a steady step
/// allocates nothing.
template <class Variant>
class Decoder {
 public:
  /// Valid until the next message of the same kind.
  [[nodiscard]] const Variant& operator()(std::span<const std::byte> bytes) {
    std::uint32_t kind = 0;
    WireReader(bytes.data(), bytes.size()).get(kind);
    MILLRACE_CHECK(kind < kept_.size(), ExitCode::internal, "actors.wire", "message kind {} found, {} known", kind, kept_.size());
    decode(bytes, kept_[kind]);
    return kept_[kind];
  }

 private:
  std::array<Variant, std::variant_size_v<Variant>> kept_;
};

}  // namespace millrace::actors

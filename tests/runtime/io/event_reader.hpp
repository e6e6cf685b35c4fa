#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/io/crc32c.hpp"

namespace millrace::runtime::testing {

/// The parts of a tensorflow.Event that the tests check.
struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  bool starts = false;  // SessionLog START
  std::map<std::string, float> scalars;
  /// HistogramProto.
  struct Histogram {
    double least = 0, most = 0, count = 0, sum = 0, squares = 0;
    std::vector<double> limits, buckets;
  };
  std::map<std::string, Histogram> histograms;
};

/// Reads event files independently of the writer: framing, both CRCs, protobuf's wire format.
class EventReader {
 public:
  /// The events of complete records; `torn` receives the number of bytes after them.
  static std::vector<ReadEvent> read(std::string_view file, std::size_t* torn = nullptr) {
    std::vector<ReadEvent> events;
    while (file.size() >= 12) {
      const auto length = little_endian<std::uint64_t>(file);
      if (file.size() < 16 || file.size() - 16 < length) break;
      EXPECT_EQ(little_endian<std::uint32_t>(file.substr(8)), masked(file.substr(0, 8))) << "the CRC of a length";
      const auto data = file.substr(12, length);
      EXPECT_EQ(little_endian<std::uint32_t>(file.substr(12 + length)), masked(data)) << "the CRC of a record";
      events.push_back(event_of(data));
      file.remove_prefix(16 + length);
    }
    if (torn) *torn = file.size();
    return events;
  }

 private:
  template <class T>
  static T little_endian(std::string_view bytes) {
    T value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes.at(i))) << (8 * i);
    return value;
  }
  static std::uint32_t masked(std::string_view bytes) { return masked_crc(crc32c(std::as_bytes(std::span(bytes)))); }

  struct Field {
    int number = 0;
    std::uint64_t integer = 0;  // varint and fixed
    std::string_view bytes;
  };
  static std::uint64_t varint(std::string_view& text) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text.at(0));
      text.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  static std::vector<Field> fields(std::string_view text) {
    std::vector<Field> all;
    while (!text.empty()) {
      const auto key = varint(text);
      Field field{static_cast<int>(key >> 3), 0, {}};
      std::size_t taken = 0;
      switch (key & 7) {
        case 0:
          field.integer = varint(text);
          break;
        case 1:
          field.integer = little_endian<std::uint64_t>(text);
          taken = 8;
          break;
        case 2:
          taken = varint(text);
          field.bytes = text.substr(0, taken);
          break;
        case 5:
          field.integer = little_endian<std::uint32_t>(text);
          taken = 4;
          break;
        default:
          ADD_FAILURE() << "wire type " << (key & 7);
          return all;
      }
      text.remove_prefix(taken);
      all.push_back(field);
    }
    return all;
  }
  static std::vector<double> doubles(std::string_view packed) {
    std::vector<double> all;
    for (; !packed.empty(); packed.remove_prefix(8)) all.push_back(std::bit_cast<double>(little_endian<std::uint64_t>(packed)));
    return all;
  }
  static ReadEvent::Histogram histogram_of(std::string_view data) {
    ReadEvent::Histogram histogram;
    for (const auto& field : fields(data)) {
      const double number = std::bit_cast<double>(field.integer);
      if (field.number == 1) histogram.least = number;
      if (field.number == 2) histogram.most = number;
      if (field.number == 3) histogram.count = number;
      if (field.number == 4) histogram.sum = number;
      if (field.number == 5) histogram.squares = number;
      if (field.number == 6) histogram.limits = doubles(field.bytes);
      if (field.number == 7) histogram.buckets = doubles(field.bytes);
    }
    return histogram;
  }
  static ReadEvent event_of(std::string_view data) {
    ReadEvent event;
    for (const auto& field : fields(data)) {
      if (field.number == 1) event.wall_time = std::bit_cast<double>(field.integer);
      if (field.number == 2) event.step = static_cast<std::int64_t>(field.integer);
      if (field.number == 3) event.version = field.bytes;
      if (field.number == 7) event.starts = fields(field.bytes).at(0).number == 1 && fields(field.bytes).at(0).integer == 1;
      if (field.number != 5) continue;
      for (const auto& value : fields(field.bytes)) {
        const auto parts = fields(value.bytes);
        if (parts.at(1).number == 5) {
          event.histograms[std::string(parts.at(0).bytes)] = histogram_of(parts.at(1).bytes);
          continue;
        }
        event.scalars[std::string(parts.at(0).bytes)] = std::bit_cast<float>(static_cast<std::uint32_t>(parts.at(1).integer));
      }
    }
    return event;
  }
};

}  // namespace millrace::runtime::testing

#include "runtime/io/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "runtime/io/crc32c.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view prefix = "events.out.tfevents.";

// -- protobuf's wire format: a key (field << 3 | type), then the value -----------------------------------------------------------------
// Written here: two small messages do not justify protobuf with its code generator.

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void add_key(std::string& out, int field, WireType type) {
  add_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<int>(type));
}

template <class Bits>
void add_little_endian(std::string& out, Bits bits) {
  for (std::size_t byte = 0; byte < sizeof bits; ++byte) out += static_cast<char>(bits >> (8 * byte));
}

void add_double(std::string& out, int field, double value) {
  add_key(out, field, WireType::fixed64);
  add_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void add_float(std::string& out, int field, float value) {
  add_key(out, field, WireType::fixed32);
  add_little_endian(out, std::bit_cast<std::uint32_t>(value));
}

void add_integer(std::string& out, int field, std::int64_t value) {
  add_key(out, field, WireType::varint);
  add_varint(out, static_cast<std::uint64_t>(value));
}

void add_bytes(std::string& out, int field, std::string_view bytes) {
  add_key(out, field, WireType::bytes);
  add_varint(out, bytes.size());
  out += bytes;
}

// -- tensorflow.Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7
// --------------------------------------------------------

std::string version_event(double now) {
  std::string event;
  add_double(event, 1, now);
  add_bytes(event, 3, "brain.Event:2");
  return event;
}

/// SessionLog, field 1: status; START = 1.
std::string start_event(double now, std::int64_t first_step) {
  std::string log, event;
  add_integer(log, 1, 1);
  add_double(event, 1, now);
  add_integer(event, 2, first_step);
  add_bytes(event, 7, log);
  return event;
}

/// HistogramProto, fields 1: min, 2: max, 3: num, 4: sum, 5: sum_squares, 6: bucket_limit (packed), 7: bucket (packed). A bucket for each
/// number, which lies in its middle.
std::string histogram_message(const std::vector<std::int64_t>& counts) {
  double all = 0, sum = 0, squares = 0;
  std::string limits, buckets;
  for (std::size_t number = 0; number < counts.size(); ++number) {
    const auto at = static_cast<double>(number), count = static_cast<double>(counts[number]);
    all += count;
    sum += at * count;
    squares += at * at * count;
    add_little_endian(limits, std::bit_cast<std::uint64_t>(at + 0.5));
    add_little_endian(buckets, std::bit_cast<std::uint64_t>(count));
  }
  std::string message;
  add_double(message, 1, -0.5);
  add_double(message, 2, static_cast<double>(counts.size()) - 0.5);
  add_double(message, 3, all);
  add_double(message, 4, sum);
  add_double(message, 5, squares);
  add_bytes(message, 6, limits);
  add_bytes(message, 7, buckets);
  return message;
}

/// Summary, field 1: value (repeated). Summary.Value, fields 1: tag, 2: simple_value or 5: histo.
std::string summary_event(double now, std::int64_t step, const EventScalars& scalars, const EventHistograms& histograms) {
  std::string summary, event;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    add_bytes(value, 1, tag);
    add_float(value, 2, static_cast<float>(number));
    add_bytes(summary, 1, value);
  }
  for (const auto& [tag, counts] : histograms) {
    std::string value;
    add_bytes(value, 1, tag);
    add_bytes(value, 5, histogram_message(counts));
    add_bytes(summary, 1, value);
  }
  add_double(event, 1, now);
  add_integer(event, 2, step);
  add_bytes(event, 5, summary);
  return event;
}

std::uint32_t masked_crc_of(std::string_view bytes) { return masked_crc(crc32c(std::as_bytes(std::span(bytes)))); }

// -- names
// ----------------------------------------------------------------------------------------------------------------------------------

/// TensorBoard reads a folder's files in the order of their names, which contain the second at which they were begun.
std::string next_name(const std::string& folder, double now) {
  auto second = static_cast<std::int64_t>(std::floor(now));
  for (const auto& name : list_directory(folder)) {
    if (!name.starts_with(prefix)) continue;
    std::int64_t other = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), other);
    second = std::max(second, other + 1);
  }
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{:010}.{}.millrace", prefix, second, host.data());
}

File begin_file(const std::string& folder, double now) {
  make_directories(folder);
  auto file = File::append(join_path(folder, next_name(folder, now)));  // appending, so that it can be truncated and continued
  sync_directory(folder);
  return file;
}

}  // namespace

std::string to_record(std::string_view data) {
  std::string record;
  add_little_endian(record, static_cast<std::uint64_t>(data.size()));
  add_little_endian(record, masked_crc_of(record));
  record += data;
  add_little_endian(record, masked_crc_of(data));
  return record;
}

EventFile::EventFile(const std::string& folder, std::int64_t first_step, double now) : file_(begin_file(folder, now)) {
  file_.write(to_record(version_event(now)) + to_record(start_event(now, first_step)));
}

void EventFile::append(std::int64_t step, double now, const EventScalars& scalars, const EventHistograms& histograms) {
  const auto before = file_.size();
  try {
    file_.write(to_record(summary_event(now, step, scalars, histograms)));
  } catch (const Error&) {
    file_.truncate(before);  // no reader gets past a partial record
    throw;
  }
}

}  // namespace millrace::runtime

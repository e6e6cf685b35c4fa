#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// What a run left in one tensor at one moment, by its name alone: nothing here depends on which rank held it.
enum class TensorMoment : std::uint8_t {
  weight,    // a parameter's master, before the step's first action
  forward,   // what an operation of a forward left
  gradient,  // … of a backward: I, W or both
};
[[nodiscard]] std::string_view to_string(TensorMoment moment);

/// 24 bytes, as they stand in the files.
struct TensorHash {
  std::uint64_t hash = 0;        // half of XXH3-128 over the tensor's bytes
  std::uint32_t name = 0;        // in the table of its file: "operation" + name_border + "tensor"; of a weight the tensor alone
  std::int32_t microbatch = -1;  // -1: a weight
  std::uint32_t operation = 0;   // its place in the stage's program, for telling what comes first
  std::uint16_t stage = 0;       // who ran it; of a weight who uses it first
  TensorMoment moment = TensorMoment::weight;
  std::uint8_t program = 0;  // ProgramKind
  friend bool operator==(const TensorHash&, const TensorHash&) = default;
};
static_assert(sizeof(TensorHash) == 24);

inline constexpr char name_border = '\t';

/// Folder of a run's recording inside run.directory; one file a rank and start of the run: after-STEP.rank-R. A file is a line of JSON,
/// {"schema":1,"kind":"millrace.hashes","rank":0,"ranks":4,"after":0}, and a block a step: HashBlock, new names with a line feed behind
/// each, records.
inline constexpr const char* hash_folder = "hashes";

struct HashBlock {
  std::uint64_t magic = expected_magic;
  std::uint64_t step = 0;  // counted from 1
  std::uint64_t names_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t sum = 0;    // of mixed() over the records: equal sums over all ranks mean equal steps, whatever the layout
  std::uint64_t check = 0;  // half of XXH3-128 over names and records
  static constexpr std::uint64_t expected_magic = 0x4853'4148'4c4c'494d;
};
static_assert(sizeof(HashBlock) == 48);

/// A record's share of its step's sum.
[[nodiscard]] std::uint64_t mixed(const TensorHash& record, std::uint64_t name_hash);

}  // namespace millrace::runtime

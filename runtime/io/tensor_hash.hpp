#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// When a tensor was hashed. Nothing here depends on which rank held the tensor.
enum class TensorMoment : std::uint8_t {
  weight,    // a weight's master parameter, before the step's first action
  forward,   // the result of an operation of a forward
  gradient,  // the result of an operation of a backward: I, W or both
};
[[nodiscard]] std::string_view to_string(TensorMoment moment);

/// The layout of a record in the files, 24 bytes.
struct TensorHash {
  std::uint64_t hash = 0;  // low half of XXH3-128 over the tensor's bytes
  std::uint32_t name = 0;  // index into the file's name table: "operation" + name_border + "tensor"; for a weight the tensor's name alone
  std::int32_t microbatch = -1;  // -1 for a weight
  std::uint32_t operation = 0;   // index in the stage's program, for ordering
  std::uint16_t stage = 0;       // the stage that ran it; for a weight the first stage that uses it
  TensorMoment moment = TensorMoment::weight;
  std::uint8_t program = 0;  // ProgramKind
  friend bool operator==(const TensorHash&, const TensorHash&) = default;
};
static_assert(sizeof(TensorHash) == 24);

inline constexpr char name_border = '\t';

/// Folder of a run's recording inside run.directory, with one file per rank and start of the run: after-STEP.rank-R. A file is a
/// line of JSON, {"schema":1,"kind":"millrace.hashes","rank":0,"ranks":4,"after":0}, followed by one block per step: HashBlock,
/// new names each followed by a newline, records.
inline constexpr const char* hash_folder = "hashes";

struct HashBlock {
  std::uint64_t magic = expected_magic;
  std::uint64_t step = 0;  // counted from 1
  std::uint64_t names_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t sum = 0;    // sum of mixed() over the records: equal sums over all ranks mean equal steps, whatever the layout
  std::uint64_t check = 0;  // half of XXH3-128 over names and records
  static constexpr std::uint64_t expected_magic = 0x4853'4148'4c4c'494d;
};
static_assert(sizeof(HashBlock) == 48);

/// A record's contribution to its step's sum.
[[nodiscard]] std::uint64_t mixed(const TensorHash& record, std::uint64_t name_hash);

}  // namespace millrace::runtime

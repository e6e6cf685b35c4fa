// The lists of every schedule against its picture for four ranks and eight microbatches. Upper case is chunk 0 (for a mirror:
// replica 0), lower case chunk 1; F3&b1 is an overlapped pair; dots and = show times, which are not compared here.

#include <cctype>

#include "runtime/schedule/cell.hpp"
#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

struct Picture {
  const char* name;
  int chunks;
  std::vector<const char*> rows;
};

const Picture pictures[] = {
    {"gpipe",
     1,
     {"r0|F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====|",
      "r1|.  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  |",
      "r2|.  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  |",
      "r3|.  .  .  F0 F1 F2 F3 F4 F5 F6 F7 B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  .  .  |"}},
    {"1f1b",
     1,
     {"r0|F0 F1 F2 F3 .  .  .  .  .  .  B0====F4 B1====F5 B2====F6 B3====F7 B4====.  B5====.  B6====.  B7====|",
      "r1|.  F0 F1 F2 .  .  .  .  B0====F3 B1====F4 B2====F5 B3====F6 B4====F7 B5====.  B6====.  B7====.  .  |",
      "r2|.  .  F0 F1 .  .  B0====F2 B1====F3 B2====F4 B3====F5 B4====F6 B5====F7 B6====.  B7====.  .  .  .  |",
      "r3|.  .  .  F0 B0====F1 B1====F2 B2====F3 B3====F4 B4====F5 B5====F6 B6====F7 B7====.  .  .  .  .  .  |"}},
    {"looped-bfs",
     2,
     {"r0|F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==|",
      "r1|. F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . |",
      "r2|. . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . |",
      "r3|. . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . . . |"}},
    {"interleaved",
     2,
     {"r0|F0F1F2F3f0f1f2f3F4F5F6. . . b0==F7b1==. f4b2==f5b3==f6B0==f7B1==B2==. B3==. b4==. b5==. b6==. b7==B4==B5==B6==B7==|",
      "r1|. F0F1F2F3f0f1f2f3F4. . b0==F5b1==F6b2==F7b3==f4B0==f5B1==f6B2==f7B3==. b4==. b5==. b6==. b7==B4==B5==B6==B7==. . |",
      "r2|. . F0F1F2F3f0f1f2. b0==f3b1==F4b2==F5b3==F6B0==F7B1==f4B2==f5B3==f6b4==f7b5==. b6==. b7==B4==B5==B6==B7==. . . . |",
      "r3|. . . F0F1F2F3f0b0==f1b1==f2b2==f3b3==F4B0==F5B1==F6B2==F7B3==f4b4==f5b5==f6b6==f7b7==B4==B5==B6==B7==. . . . . . |"}},
    {"zb-h1",
     1,
     {"r0|F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7 |",
      "r1|.  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7 |",
      "r2|.  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7 |",
      "r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7 |"}},
    {"zb-h2",
     1,
     {"r0|F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7 .  .  .  |",
      "r1|.  F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7 .  .  |",
      "r2|.  .  F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7 .  |",
      "r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7 |"}},
    {"zb-v",
     2,
     {"r0|F0F1F2F3F4F5F6f0i0w0f1i1w1f2i2w2f3i3w3F7I0W0f4i4w4I1W1f5i5w5I2W2f6i6w6I3W3f7i7w7I4W4I5W5I6W6I7W7. . . |",
      "r1|. F0F1F2F3F4f0F5f1i0w0f2i1w1f3i2w2F6I0W0f4i3w3F7I1W1f5i4w4I2W2f6i5w5I3W3f7i6w6I4i7I5W4I6W5I7W6w7W7. . |",
      "r2|. . F0F1F2f0F3f1F4f2i0w0f3i1w1F5I0W0f4i2w2F6I1W1f5i3w3F7I2W2f6i4w4I3W3f7i5w5I4i6I5i7I6W4I7W5w6w7W6W7. |",
      "r3|. . . F0f0F1f1F2f2F3f3i0w0F4I0W0f4i1w1F5I1W1f5i2w2F6I2W2f6i3w3F7I3W3f7i4w4I4i5I5i6I6i7I7W4w5w6w7W5W6W7|"}},
    {"v-half",
     2,
     {"r0|F0F1. . . . . f0F2i0w0f1F3i1w1f2F4. I0i2W0f3w2F5I1i3W1f4w3F6I2i4W2f5w4F7I3i5W3f6w5. I4i6W4f7w6I5i7W5w7I6W6. . I7W7|",
      "r1|. F0F1. . . f0. . F2f1i0w0F3f2i1w1I0F4W0f3i2w2I1F5W1f4i3w3I2F6W2f5i4w4I3F7W3f6i5w5I4W4. f7i6I5w6W5i7I6w7W6. I7W7. |",
      "r2|. . F0. . f0F1. . f1F2. i0f2w0F3I0i1W0f3w1F4I1i2W1f4w2F5I2i3W2f5w3F6I3i4W3f6w4F7I4i5W4f7w5I5i6W5w6I6i7W6w7I7W7. . |",
      "r3|. . . F0f0. . F1f1. . F2f2i0I0w0F3W0f3i1I1w1F4W1f4i2I2w2F5W2f5i3I3w3F6W3f6i4I4w4F7W4f7i5I5w5W5i6I6w6W6i7I7w7W7. . |"}},
    {"v-min",
     2,
     {"r0|F0F1. . . . . f0i0F2w0. . f1i1I0w1F3W0f2i2I1w2F4W1f3i3I2w3F5W2f4i4I3w4F6W3f5i5I4w5F7W4f6i6I5w6W5. f7i7I6w7W6. . . I7W7|",
      "r1|. F0. . . . f0F1. i0w0. f1F2I0i1W0w1f2F3I1i2W1w2f3F4I2i3W2w3f4F5I3i4W3w4f5F6I4i5W4w5f6F7I5i6W5w6f7. I6i7W6w7. . I7W7. |",
      "r2|. . F0. . f0. . F1. i0f1w0I0F2W0i1f2w1I1F3W1i2f3w2I2F4W2i3f4w3I3F5W3i4f5w4I4F6W4i5f6w5I5F7W5i6f7w6I6W6. i7w7. I7W7. . |",
      "r3|. . . F0f0. . . . F1f1i0I0w0W0F2f2i1I1w1W1F3f3i2I2w2W2F4f4i3I3w3W3F5f5i4I4w4W4F6f6i5I5w5W5F7f7i6I6w6W6. . i7I7w7W7. . |"}},
    {"interleaved-zb",
     2,
     {"r0|F0F1F2F3f0f1f2f3. . . i0w0F4i1w1F5i2w2F6i3w3F7I0W0f4I1W1f5I2W2f6I3W3f7i4w4i5w5i6w6i7w7I4W4I5W5I6W6I7W7|",
      "r1|. F0F1F2F3f0f1f2. . i0f3i1w0F4i2w1F5i3w2F6I0w3F7I1W0f4I2W1f5I3W2f6i4W3f7i5w4i6w5i7w6I4w7I5W4I6W5I7W6W7|",
      "r2|. . F0F1F2F3f0f1. i0f2i1f3i2w0F4i3w1F5I0w2F6I1w3F7I2W0f4I3W1f5i4W2f6i5W3f7i6w4i7w5I4w6I5w7I6W4I7W5W6W7|",
      "r3|. . . F0F1F2F3f0i0f1i1f2i2f3i3w0F4I0w1F5I1w2F6I2w3F7I3W0f4i4W1f5i5W2f6i6W3f7i7w4I4w5I5w6I6w7I7W4W5W6W7|"}},
    {"dualpipe",
     1,
     {"r0|F0 F1 F2 f0 i0 w0 f1 F3&b1====.  f2&B0====b2====.  f3&B1====b3====I2 W2 I3 W3 |",
      "r1|.  F0 f0 F1 f1 F2 b0====f2&B0====F3&b1====f3&B1====b2====B2====.  i3 I3 w3 W3 |",
      "r2|.  f0 F0 f1 F1 f2 B0====F2&b0====f3&B1====F3&b1====B2====b2====.  I3 i3 W3 w3 |",
      "r3|f0 f1 f2 F0 I0 W0 F1 f3&B1====.  F2&b0====B2====.  F3&b1====B3====i2 w2 i3 w3 |"}},
    {"dualpipe-v",
     2,
     {"r0|F0F1F2F3F4F5F6f0i0w0f1i1w1f2i2w2f3F7&b3=. . . f4&B0=b4==. f5&B1=b5==. f6&B2=b6==. f7&B3=b7==I4W4I5W5I6W6I7W7|",
      "r1|. F0F1F2F3F4f0F5f1i0w0f2i1w1f3F6&b2=. . f4&B0=F7&b3=f5&B1=b4==. f6&B2=b5==. f7&B3=b6==B4==. i7I5w7I6W5I7W6W7|",
      "r2|. . F0F1F2f0F3f1F4f2i0w0f3F5&b1=. f4&B0=F6&b2=f5&B1=F7&b3=f6&B2=b4==. f7&B3=b5==B4==. b6==I5. i7I6W5I7w7W6W7|",
      "r3|. . . F0f0F1f1F2f2F3f3F4b0==f4&B0=F5&b1=f5&B1=F6&b2=f6&B2=F7&b3=f7&B3=b4==B4==. b5==B5==. i6I6. i7I7w6W6w7W7|"}},
};

// Parses the action at `at` and advances past it.
Action read_action(const std::string& row, std::size_t& at, const Schedule& schedule, RankId rank) {
  const char kind = row[at];
  std::size_t length = 0;
  const int ordinal = std::stoi(row.substr(at + 1), &length);
  at += 1 + length;
  const StageId stage = schedule.placement.stage_of(rank, std::islower(static_cast<unsigned char>(kind)) != 0 ? 1 : 0);
  const std::string letter(1, static_cast<char>(std::toupper(static_cast<unsigned char>(kind))));
  return parse_action(fmt::format("{}{}{}", stage, letter, schedule.microbatch_of(stage, ordinal)));
}

std::vector<Action> read_row(const std::string& row, const Schedule& schedule, RankId rank) {
  std::vector<Action> list;
  for (std::size_t at = row.find('|') + 1; at < row.size();) {
    if (std::isalpha(static_cast<unsigned char>(row[at])) == 0) {
      if (row[at] == '&') list.back().overlaps_next = true;
      ++at;
      continue;
    }
    list.push_back(read_action(row, at, schedule, rank));
  }
  return list;
}

TEST(Pictures, ListsAreTheirPictures) {
  for (const Picture& picture : pictures) {
    const Schedule schedule = make_schedule({picture.name, 4, picture.chunks, 8, {}});
    EXPECT_EQ(schedule.name, picture.name);
    ASSERT_EQ(schedule.ranks.size(), 4u);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(print_row(schedule.ranks[rank]), print_row(read_row(picture.rows[rank], schedule, RankId{rank})))
          << picture.name << " rank " << rank;
    }
  }
}

TEST(Pictures, CircularIsBreadthFirst) {
  EXPECT_EQ(circular(4, 2, 8).ranks, looped_bfs(4, 2, 8).ranks);
  EXPECT_EQ(circular(4, 2, 8).name, "circular");
}

}  // namespace
}  // namespace millrace::runtime

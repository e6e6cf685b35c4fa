#include "runtime/batch.hpp"

#include <gtest/gtest.h>

#include <set>

namespace millrace::runtime {
namespace {

/// A batch in which every entry of every field is another number.
Batch numbered(std::size_t entries) {
  Batch batch(entries);
  std::int32_t next = 1;
  for (const BatchField& field : batch_fields)
    for (auto& value : batch.*field.array) value = next++;
  return batch;
}

bool same(const BatchView& a, const BatchView& b) {
  return std::ranges::all_of(batch_fields, [&](const BatchField& field) { return std::ranges::equal(a.*field.array, b.*field.array); });
}

TEST(Batch, HasEachFieldOnceInAPlaceOfItsOwn) {
  Batch batch = numbered(6);
  std::set<std::int32_t> values;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < batch_fields.size(); ++i) {
    EXPECT_EQ(batch_field_index(batch_fields[i].name), i);
    EXPECT_TRUE(names.insert(batch_fields[i].name).second);
    EXPECT_EQ((batch.*batch_fields[i].array).size(), 6U);
    values.insert((batch.*batch_fields[i].array).begin(), (batch.*batch_fields[i].array).end());
  }
  EXPECT_EQ(values.size(), 6 * batch_fields.size());
  EXPECT_EQ(batch_field_index("token"), batch_fields.size());
}

TEST(Batch, IsCopiedAndMovedWithItsEntries) {
  Batch batch = numbered(4);
  Batch copy = batch;
  EXPECT_TRUE(same(copy, batch));
  copy.targets[2] = 77;
  EXPECT_NE(batch.targets[2], 77) << "a copy has arrays of its own";
  const std::int32_t* const first = copy.tokens.data();
  Batch moved = std::move(copy);
  EXPECT_EQ(moved.tokens.data(), first);
  EXPECT_EQ(moved.targets[2], 77);
  batch = moved;
  EXPECT_TRUE(same(batch, moved));
  EXPECT_NE(batch.tokens.data(), moved.tokens.data());
  Batch target(4);
  copy_batch(batch, target);
  EXPECT_TRUE(same(target, batch));
}

TEST(Batch, GivesPartsAndPadding) {
  Batch batch = numbered(6);
  const BatchView part = part_of(batch, 2, 3);
  for (const BatchField& field : batch_fields) {
    ASSERT_EQ((part.*field.array).size(), 3U);
    EXPECT_EQ((part.*field.array).data(), (batch.*field.array).data() + 2);
  }
  const Batch before = batch;
  pad(part);
  for (const BatchField& field : batch_fields)
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ((batch.*field.array)[i], i >= 2 && i < 5 ? field.padding : (before.*field.array)[i]) << field.name << " " << i;
  EXPECT_EQ(batch.targets[3], -1);
  EXPECT_EQ(batch.segments[3], 0);
}

}  // namespace
}  // namespace millrace::runtime

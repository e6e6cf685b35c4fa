#include <cstring>

#include "tests/kernels/attention_cases.hpp"

// What a token, a document, a row must not change: the bits of those that do not see it.
namespace millrace::kernels::testing {
namespace {

// Whether tokens [begin, end) have the same bits in both tensors; every token has `width` elements.
bool same_tokens(const Data& a, const Data& b, std::int64_t begin, std::int64_t end) {
  const auto width = static_cast<std::int64_t>((*a).bytes()) / (*a).shape[0];
  return std::memcmp((*a).data + begin * width, (*b).data + begin * width, static_cast<std::size_t>((end - begin) * width)) == 0;
}

void edit(Inputs& in, std::int64_t begin, std::int64_t end) {
  const auto change = [&](Data& data, double offset) {
    const std::int64_t width = data.elements() / (*data).shape[0];
    for (std::int64_t i = begin * width; i < end * width; ++i) data.set(i, data.get(i) * 50 + offset);
  };
  change(in.q, 3);
  change(in.k, -20);
  change(in.v, 1e6);
  change(in.d_o, 100);
}

TEST(Attention, ATokenChangesNothingBeforeIt) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t changed : {1, 5, 63, 64, 90, 139}) {
      Inputs in({1, 140, 2, 1, 16, dtype, 0});
      const Outputs before = run(in);
      edit(in, changed, changed + 1);
      const Outputs after = run(in);
      EXPECT_TRUE(same_tokens(before.o, after.o, 0, changed)) << changed;
      EXPECT_TRUE(same_tokens(before.sums, after.sums, 0, changed)) << changed;
      EXPECT_TRUE(same_tokens(before.dq, after.dq, 0, changed)) << changed;
      EXPECT_FALSE(same_tokens(before.o, after.o, changed, changed + 1)) << changed;
    }
}

TEST(Attention, ADocumentDoesNotTouchAnother) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Inputs in({2, 150, 2, 1, 16, dtype, 50});
    const Outputs before = run(in);
    edit(in, 50, 100);  // the second of six documents
    const Outputs after = run(in);
    for (const auto member : {&Outputs::o, &Outputs::sums, &Outputs::dq, &Outputs::dk, &Outputs::dv}) {
      EXPECT_TRUE(same_tokens(before.*member, after.*member, 0, 50));
      EXPECT_TRUE(same_tokens(before.*member, after.*member, 100, 300));
      EXPECT_FALSE(same_tokens(before.*member, after.*member, 50, 100));
    }
  }
}

// Whole tiles that cannot be seen are skipped, so not even a NaN comes out of them.
TEST(Attention, ANaNInAnotherTileStaysThere) {
  Inputs in({1, 192, 1, 1, 16, DType::f32, 64});
  const Outputs before = run(in);
  in.v.set(100 * 16, std::numeric_limits<double>::quiet_NaN());
  in.k.set(100 * 16, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in);
  EXPECT_TRUE(same_tokens(before.o, after.o, 0, 64));
  EXPECT_TRUE(same_tokens(before.o, after.o, 128, 192));
  EXPECT_TRUE(std::isnan(after.o.get(120 * 16)));
}

TEST(Attention, ARowDoesNotDependOnItsBatch) {
  Inputs batch({3, 70, 2, 1, 16, DType::f32, 0});
  Inputs alone({1, 70, 2, 1, 16, DType::f32, 0});
  const auto take = [](const Data& from, Data& to) { std::memcpy((*to).data, (*from).data + 2 * (*to).bytes(), (*to).bytes()); };
  take(batch.q, alone.q);
  take(batch.k, alone.k);
  take(batch.v, alone.v);
  const Outputs expected = run(batch);
  const Outputs found = run(alone);
  EXPECT_EQ(std::memcmp((*found.o).data, (*expected.o).data + 2 * (*found.o).bytes(), (*found.o).bytes()), 0);
}

}  // namespace
}  // namespace millrace::kernels::testing

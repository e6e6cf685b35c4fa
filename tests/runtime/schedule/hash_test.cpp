#include "runtime/schedule/hash.hpp"

#include <set>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TEST(Hash, IsFnv1aOfTheCanonicalText) {
  EXPECT_EQ(canonical_text(one_f_one_b(2, 1)), "#millrace-schedule 1\n#M 1\n#ranks 0 1\n0F0,0B0\n1F0,1B0\n");
  std::uint64_t hash = 14695981039346656037u;
  for (unsigned char byte : canonical_text(one_f_one_b(2, 1))) hash = (hash ^ byte) * 1099511628211u;
  EXPECT_EQ(content_hash(one_f_one_b(2, 1)), hash);
}

TEST(Hash, SeesPairsAndReplicas) {
  expect_contains(canonical_text(dualpipe_v(1, 2)), "\n0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,");
  Schedule apart = dualpipe_v(1, 2);
  for (Action& action : apart.ranks[0]) action.overlaps_next = false;
  EXPECT_NE(content_hash(apart), content_hash(dualpipe_v(1, 2)));
  Schedule folded = dualpipe(2, 4);
  expect_contains(canonical_text(folded), "#ranks 0 1 1 0\n#replicas 2\n");
  folded.placement = Placement::v_shape(2);
  EXPECT_NE(content_hash(folded), content_hash(dualpipe(2, 4)));
}

TEST(Hash, SeesListsAndPlacementButNotTheName) {
  Schedule renamed = one_f_one_b(2, 4);
  renamed.name = "mine";
  EXPECT_EQ(content_hash(renamed), content_hash(one_f_one_b(2, 4)));
  EXPECT_EQ(content_hash(looped_bfs(2, 1, 4)), content_hash(gpipe(2, 4)));
  const std::set<std::uint64_t> different{content_hash(gpipe(2, 4)),
                                          content_hash(one_f_one_b(2, 4)),
                                          content_hash(zb_h1(2, 4)),
                                          content_hash(gpipe(2, 5)),
                                          content_hash(gpipe(4, 4)),
                                          content_hash(looped_bfs(2, 2, 4)),
                                          content_hash(forward_only(Placement::loop(2, 2), 4)),
                                          content_hash(forward_only(Placement::v_shape(2), 4))};
  EXPECT_EQ(different.size(), 8u);
}

}  // namespace
}  // namespace millrace::runtime

// SPDX-License-Identifier: Apache-2.0
//
// If a rank trusted memory that is not what it expects, a wrong descriptor or an older program would become a crash or wrong tokens.
#include "comm/transports/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "comm/transports/shared_memory.h"

namespace skein::comm {
namespace {

// An unsealed copy of an arena's first bytes with one byte changed, as large as it.
class Copy {
 public:
  explicit Copy(const Arena& arena, int changed_byte = -1, int resize = 0) : descriptor_(memfd_create("copy", MFD_ALLOW_SEALING)) {
    std::byte bytes[512];
    EXPECT_EQ(pread(arena.descriptor(), bytes, sizeof bytes, 0), static_cast<ssize_t>(sizeof bytes));
    if (changed_byte >= 0) bytes[changed_byte] ^= std::byte{0x40};
    EXPECT_EQ(ftruncate(descriptor_, lseek(arena.descriptor(), 0, SEEK_END) + resize), 0);
    EXPECT_EQ(pwrite(descriptor_, bytes, sizeof bytes, 0), static_cast<ssize_t>(sizeof bytes));
  }
  ~Copy() { close(descriptor_); }
  int Sealed() const {
    EXPECT_EQ(fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return descriptor_;
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

TEST(Arena, AttachesToWhatWasCreated) {
  auto arena = Arena::Shared(3, 1024);
  ASSERT_TRUE(arena.ok());
  auto other = Arena::Attach(arena->descriptor());
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ(other->members(), 3);
  EXPECT_EQ(other->slot_bytes(), 1024U);
  arena->FlagOf(1, 2).posted.store(9);
  EXPECT_EQ(other->FlagOf(1, 2).posted.load(), 9U);
  EXPECT_EQ(other->FlagOf(2, 1).posted.load(), kFirstCount);
  EXPECT_TRUE(other->TakeMember(1));
  EXPECT_FALSE(arena->TakeMember(1));
}

TEST(Arena, RefusesEveryChangedByteOfTheHeader) {
  auto arena = Arena::Shared(2, 1024);
  ASSERT_TRUE(arena.ok());
  EXPECT_TRUE(Arena::Attach(Copy(*arena).Sealed()).ok());
  for (int byte = 0; byte < 36; ++byte) {
    const Copy copy(*arena, byte);
    EXPECT_EQ(Arena::Attach(copy.Sealed()).status().code(), Code::kInvalidFile) << byte;
  }
}

TEST(Arena, RefusesForeignFiles) {
  auto arena = Arena::Shared(2, 1024);
  ASSERT_TRUE(arena.ok());
  EXPECT_FALSE(Arena::Attach(-1).ok());
  EXPECT_FALSE(Arena::Attach(Copy(*arena).descriptor()).ok()) << "not sealed: could be cut off under a reader";
  EXPECT_FALSE(Arena::Attach(Copy(*arena, -1, 4096).Sealed()).ok());
  EXPECT_FALSE(Arena::Attach(Copy(*arena, -1, -4096).Sealed()).ok());
  const int zero = open("/dev/zero", O_RDONLY);
  EXPECT_FALSE(Arena::Attach(zero).ok());
  close(zero);
}

TEST(Arena, ImpossibleSizesAreErrors) {
  EXPECT_FALSE(Arena::InProcess(0).ok());
  EXPECT_FALSE(Arena::InProcess(257).ok());
  EXPECT_FALSE(Arena::InProcess(2, 0).ok());
  EXPECT_FALSE(Arena::InProcess(2, 1000).ok());
  EXPECT_FALSE(Arena::InProcess(2, std::size_t{1} << 40).ok());
}

TEST(Arena, LeavesNoNameBehind) {
  const auto entries = [] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/dev/shm")) ++count;
    return count;
  };
  const int before = entries();
  auto arena = Arena::Shared(2, 1024);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(entries(), before);
}

TEST(SharedMemory, AMemberIsTakenOnce) {
  auto arena = Arena::InProcess(2, 1024);
  ASSERT_TRUE(arena.ok());
  EXPECT_FALSE(SharedMemoryTransport::Create(*arena, 2, {}).ok());
  auto first = SharedMemoryTransport::Create(*arena, 0, {});
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(SharedMemoryTransport::Create(*arena, 0, {}).ok());
}

TEST(SharedMemory, CountsMayWrap) {
  // A pair that exchanges a million messages a second wraps its counts after an hour; here they do so after 64.
  auto arena = Arena::InProcess(2, 8192);
  ASSERT_TRUE(arena.ok());
  auto a = SharedMemoryTransport::Create(*arena, 0, {}), b = SharedMemoryTransport::Create(*arena, 1, {});
  ASSERT_TRUE(a.ok() && b.ok());
  for (int i = 0; i < 1000; ++i) {
    const std::size_t bytes = i % 3 == 0 ? ShortBytes(2) + 1 : static_cast<std::size_t>(i % 7);
    std::byte* slot = (*a)->Open();
    ASSERT_NE(slot, nullptr);
    std::fill(slot, slot + bytes, static_cast<std::byte>(i));
    ASSERT_TRUE((*a)->Post(1, slot, 0, bytes));
    const std::byte* in = (*b)->Await(0, bytes);
    ASSERT_NE(in, nullptr);
    for (std::size_t at = 0; at < bytes; ++at) ASSERT_EQ(in[at], static_cast<std::byte>(i)) << i << " " << at;
    (*b)->Release(0, Acknowledge::kNow);
  }
}

}  // namespace
}  // namespace skein::comm

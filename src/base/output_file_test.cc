// SPDX-License-Identifier: Apache-2.0
//
// Tests of OutputFile: whole files or none.
#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace skein {
namespace {

std::string Folder() {
  const std::string folder = ::testing::TempDir() + "/output_file_test_" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// If this failed, an interrupted command would leave half a model that looks like a whole one.
TEST(OutputFile, IsThereWholeOrNotAtAll) {
  const std::string folder = Folder(), path = folder + "/out";
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("left").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.ok());
  const std::string large(200000, 'x');
  ASSERT_TRUE(file->Write("ab").ok());
  ASSERT_TRUE(file->Write(large).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(std::filesystem::file_size(path), large.size() + 2);
  std::filesystem::remove_all(folder);
}

// If this failed, a program that is killed while it writes (Ctrl-C, out of memory) would leave rubbish in the folder.
TEST(OutputFile, NothingIsLeftBehindByAProgramThatIsKilled) {
  const std::string folder = Folder(), path = folder + "/out";
  const int probe = ::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0666);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(probe);
  std::ofstream(path) << "old";
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = OutputFile::Create(path);
    if (file.ok()) static_cast<void>(file->Write(std::string(200000, 'x')).ok());
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  const auto count = std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  EXPECT_EQ(count, 1);
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  auto file = OutputFile::Create(path);  // and what is there is replaced
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("newer").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  std::filesystem::remove_all(folder);
}

// If this failed, a full disk would look like success.
TEST(OutputFile, AFullDiskIsAnError) {
  auto file = OutputFile::Create("/dev/full");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("text").ok());
  const Status status = file->Commit();
  EXPECT_EQ(status.code(), Code::kMissing);
  EXPECT_NE(status.message().find("/dev/full"), std::string::npos);
  EXPECT_EQ(OutputFile::Create("/nowhere/at/all").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace skein

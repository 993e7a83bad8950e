// SPDX-License-Identifier: Apache-2.0
//
// If these fail, a log that nobody reads stops the server, or lines are lost that had room.
#include "base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>

namespace skein {
namespace {

std::string ReadAll(int descriptor) {
  std::string text;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(descriptor, block, sizeof block)) > 0;) text.append(block, static_cast<std::size_t>(count));
  return text;
}

class LogWriterTest : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }  // as the program does
};

TEST_F(LogWriterTest, LinesComeInOrderAndAllAtTheEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string wanted;
  {
    LogWriter writer(ends[1]);
    for (int i = 0; i < 1000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      wanted += line;
      writer.Push(line);
    }
  }
  ::close(ends[1]);
  EXPECT_EQ(ReadAll(ends[0]), wanted);
  ::close(ends[0]);
}

// A signal that this thread took would end the server at once, with all its answers, where it should drain.
TEST_F(LogWriterTest, SignalsThatTheProgramWaitsForAreNotTakenByItsThread) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  LogWriter writer(ends[1]);
  sigset_t wanted, before, pending;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before);  // after the thread has begun
  ::kill(::getpid(), SIGUSR2);                     // not taken by anybody else, whom it would end
  writer.Push("line\n");
  char line[5];
  EXPECT_EQ(::read(ends[0], line, sizeof line), 5);  // its thread has been running
  ::sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGUSR2), 1);
  const timespec at_once{};
  EXPECT_EQ(::sigtimedwait(&wanted, nullptr, &at_once), SIGUSR2);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(LogWriterTest, AReaderThatDoesNotReadHoldsUpNobodyAndIsToldWhatIsMissing) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto writer = std::make_unique<LogWriter>(ends[1], std::size_t{1} << 16);
  const std::string line(1000, 'x');
  for (int i = 0; i < 1000; ++i) writer->Push(line + "\n");  // a megabyte: the pipe and the queue hold less
  std::string text;
  char block[4096];
  while (text.find("were lost") == std::string::npos) {
    writer->Push("later\n");
    const ssize_t count = ::read(ends[0], block, sizeof block);
    ASSERT_GT(count, 0);
    text.append(block, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  writer.reset();
  ::close(ends[1]);
}

// A disk that was full for an hour would leave an hour that looks as if nothing had happened.
TEST_F(LogWriterTest, WhatAFullDiskDidNotTakeIsCountedAndSaidOnceItTakesAgain) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int log = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(log, 0);
  {
    LogWriter writer(log);
    writer.Push("lost one\n");
    writer.Push("lost two\n");
    while (writer.lost() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_GE(::dup2(ends[1], log), 0);
    writer.Push("kept\n");
  }
  ::close(log);
  ::close(ends[1]);
  const std::string text = ReadAll(ends[0]);
  EXPECT_TRUE(text.starts_with("\nkept\n")) << text;  // behind a line that may have been cut
  EXPECT_NE(text.find("2 lines of the log were lost"), std::string::npos) << text;
  EXPECT_EQ(text.find("lost one"), std::string::npos) << text;
  ::close(ends[0]);
}

TEST_F(LogWriterTest, TheEndDoesNotWaitForEver) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    LogWriter writer(ends[1]);
    for (int i = 0; i < 500; ++i) writer.Push(std::string(1000, 'x'));
  }
  SUCCEED();  // or the test hangs
  ::close(ends[0]);  // ends the thread that still writes
}

}  // namespace
}  // namespace skein

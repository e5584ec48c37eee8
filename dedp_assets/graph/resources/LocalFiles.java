package dedp;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, with permissions and links by Java in place of processes.
 *
 * <p>Without its native library, which pyspark does not ship, Hadoop starts a process ({@code chmod}) for each file and
 * folder that it makes, and two ({@code readlink}) for each file that it renames: a third of the time of a small write.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  /** The same without checksums. */
  static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.getStickyBit()) { // which Java does not know
        super.setPermission(path, permission);
        return;
      }
      Files.setPosixFilePermissions(file(path), PosixFilePermissions.fromString(permission.toString()));
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return Files.isSymbolicLink(file(path)) ? super.getFileLinkStatus(path) : getFileStatus(path);
    }

    private java.nio.file.Path file(Path path) {
      return pathToFile(path).toPath();
    }
  }

  /** The same for those who ask by Hadoop's newer interface: Delta's own commits, checkpoints of streams. */
  public static final class Context extends ChecksumFs {
    public Context(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(new Plain(uri, settings));
    }
  }

  static final class Plain extends DelegateToFileSystem {
    Plain(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(uri, new Raw(), settings, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true; // Hadoop's default refuses a colon, which a local name may have
    }
  }
}

// A Hive Metastore in one boot: the tables of its locks are made first, then it serves.
// Run from source by a JDK; settings come from hive-site.xml on the class path.

import java.sql.SQLException;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

public class Hms {
  public static void main(String[] arguments) throws Throwable {
    try {
      TxnDbUtil.prepDb(new HiveConf());
    } catch (SQLException error) { // a second start on the same database finds them there
      System.err.println("lock tables: " + error.getMessage());
    }
    HiveMetaStore.main(arguments);
  }
}
